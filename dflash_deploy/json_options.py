"""vLLM's options that take a JSON object: written as one, or key by key after a dot. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from dflash_deploy.flag_tables import Given, json_object

SPECULATION = "--speculative-config"
_NAMES = frozenset({"model", "revision", "code_revision"})
"""Keys whose words are no numbers, even where they look like one: a commit may be all digits."""


def keys(item: Given) -> dict[str, Any]:
    """What one option says, key by key; empty for any other kind of option."""
    if not item.words:
        return {}
    path = dotted_path(item)
    if not path:
        return json_object(item.words[0])
    said: Any = item.words[0] if path[-1] in _NAMES else _value(item.words[0])
    for key in reversed(path):
        said = {key: said}
    return dict(said)


def dotted_path(item: Given) -> list[str]:
    """`[model]` of `--speculative-config.model`; empty for an option without a dot."""
    return item.as_written.partition("=")[0].replace("-", "_").split(".")[1:]


def together(given: Iterable[Given]) -> dict[str, Any]:
    """All that options of one name say: the last object, and over it each key after a dot."""
    found: dict[str, Any] = {}
    for item in sorted(given, key=lambda item: bool(dotted_path(item))):
        found = _merged(found, keys(item)) if dotted_path(item) else keys(item)
    return found


def in_one(given: Iterable[Given]) -> list[tuple[str, ...]]:
    """The words of each option, an object and keys of it after a dot made one object.

    vLLM would drop the object, wherever it stands (0.20.0 to 0.33.0 utils/argparse_utils.py).
    """
    items = list(given)
    dotted = {item.flag for item in items if item.flag and dotted_path(item)}
    whole = {item.flag for item in items if item.words and not dotted_path(item)}
    mixed = dict.fromkeys(item.flag for item in items if item.flag in dotted & whole)
    kept = [item.raw for item in items if item.flag not in mixed]
    for flag in mixed:
        said = together(item for item in items if item.flag == flag)
        kept.append((str(flag), json.dumps(said)))
    return kept


def text(value: object) -> str:
    """A value as it is written on a command line."""
    return value if isinstance(value, str) else json.dumps(value)


def _value(word: str) -> Any:
    """A dotted option's word, read as JSON where it is some."""
    try:
        return json.loads(word)
    except (ValueError, RecursionError):
        return word


def _merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    both = {key: _merged(old[key], value)
            for key, value in new.items()
            if isinstance(value, dict) and isinstance(old.get(key), dict)}  # fmt: skip
    return {**old, **new, **both}
