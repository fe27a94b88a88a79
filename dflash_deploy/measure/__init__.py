"""Endpoint -> numbers: the engine's own counters, and what they say about speculation."""
