"""A context stretched by YaRN: what was said of it in the engine's words. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

from dflash_deploy.flag_tables import json_object

_ROPE = ("rope_parameters", "rope_scaling")
MOST = 2**31
"""No context is longer; a factor or a length beyond it means nothing."""


def yarn(words: Mapping[str, tuple[str, ...]]) -> dict[str, Any] | None:
    """The rope settings that stretch; None where nothing does."""
    for part in _overrides(words):
        for rope in (part.get(name) for name in _ROPE):
            if isinstance(rope, dict) and "yarn" in (rope.get("rope_type"), rope.get("type")):
                return rope
    return None


def longest_context(own: int | None, words: Mapping[str, tuple[str, ...]]) -> int | None:
    """What a target reads with these settings; None: not known.

    YaRN's factor counts from the length that is said beside it, else from the target's own.
    """
    rope = yarn(words) or {}
    length, factor = rope.get("original_max_position_embeddings", own), rope.get("factor")
    if _counts(length) and _counts(factor):
        return max(own or 0, min(int(length * factor), MOST))
    return own


def said_positions(words: Mapping[str, tuple[str, ...]]) -> int | None:
    """The config's own length, where the overrides say that too."""
    said = [part.get("max_position_embeddings") for part in _overrides(words)]
    return next((int(length) for length in said if _counts(length)), None)


def _overrides(words: Mapping[str, tuple[str, ...]]) -> Iterator[dict[str, Any]]:
    """Of the config, and of the part of it that is about text."""
    said = json_object(next(iter(words.get("overrides", ())), ""))
    yield said
    text = said.get("text_config")
    if isinstance(text, dict):
        yield text


def _counts(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and 1 <= value <= MOST
