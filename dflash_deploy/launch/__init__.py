"""Plan -> Endpoint: the engine found, started, watched and ended."""
