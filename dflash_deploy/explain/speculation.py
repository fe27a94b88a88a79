"""vLLM's speculative config as people write it: JSON, dotted options, or options of their own."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from dflash_deploy import json_options
from dflash_deploy.flag_tables import Given
from dflash_deploy.json_options import SPECULATION

SHORT = {
    "--spec-method": "method", "--spec-model": "model", "--spec-tokens": "num_speculative_tokens",
}  # fmt: skip
PLANNED = frozenset({"method", "model", "num_speculative_tokens", "revision", "attention_backend",
                     "code_revision"})  # fmt: skip
"""Keys that a plan decides, or says in its own way."""


def config(given: Iterable[Given]) -> dict[str, Any]:
    """All of it together; the last word wins."""
    found: dict[str, Any] = {}
    for item in given:
        found |= keys(item)
    return found


def keys(item: Given) -> dict[str, Any]:
    """What one option says of the speculative config."""
    if item.flag in SHORT and item.words:
        return {SHORT[item.flag]: item.words[0]}
    return json_options.keys(item) if item.flag == SPECULATION else {}


def part(item: Given, key: str, value: object) -> str:
    """One key of an option, as it was written."""
    if item.flag in SHORT or json_options.dotted_path(item):
        return f"{item.as_written} {' '.join(item.words)}"
    return f'"{key}": {json.dumps(value)}'
