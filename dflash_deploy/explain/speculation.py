"""vLLM's speculative config as people write it: JSON, dotted options, or options of their own."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from dflash_deploy.flag_tables import Given, json_object

FLAG = "--speculative-config"
_SHORT = {
    "--spec-method": "method", "--spec-model": "model", "--spec-tokens": "num_speculative_tokens",
}  # fmt: skip


def config(given: Iterable[Given]) -> dict[str, Any]:
    """All of it together; the last word wins."""
    found: dict[str, Any] = {}
    for item in given:
        found |= keys(item)
    return found


def keys(item: Given) -> dict[str, Any]:
    """What one option says of the speculative config."""
    if not item.words:
        return {}
    if item.flag in _SHORT:
        return {_SHORT[item.flag]: item.words[0]}
    if item.flag != FLAG:
        return {}
    key = dotted_key(item)
    return {key: item.words[0]} if key else json_object(item.words[0])


def dotted_key(item: Given) -> str:
    """`model` of `--speculative-config.model`; empty for the whole config."""
    return item.as_written.partition("=")[0].partition(".")[2].replace("-", "_")


def part(item: Given, key: str, value: object) -> str:
    """One key of an option, as it was written."""
    if item.flag != FLAG or dotted_key(item):
        return f"{item.as_written} {value}"
    return f'"{key}": {json.dumps(value)}'
