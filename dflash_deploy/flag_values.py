"""What the words of a flag, or the values in its JSON object, may be. Pure."""

from __future__ import annotations

import json
import re
from typing import Any, Literal

from dflash_deploy.schema import Struct

Kind = Literal["integer", "size", "number", "switch", "object", "array", "json"]
"""A size is a whole number that may end in k, m, g or t, as `32k`."""
_SUFFIX = re.compile(r"(\d+)(\.\d+)?([kmgtKMGT])")
_POWERS = {letter: power for power, letter in enumerate("kmgt", 1)}
_SWITCHES = frozenset(["0", "1", "on", "off", "t", "f", "true", "false", "y", "n", "yes", "no"])
_NOTHING = ("", "None")
_DECODED = frozenset({"object", "array", "json"})
_IN_JSON = re.compile(r'"(?:[^"\\]|\\.)*"|\b\d+(?:\.\d+)?[kKmMgGtT]\b')


class Values(Struct, frozen=True, kw_only=True):
    """What a release takes; nothing said: any text."""

    kind: Kind | None = None
    choices: list[str] | None = None
    """With a kind: words that it may be instead."""
    any_case: bool = False
    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None
    nullable: bool = False


def takes_word(values: Values, word: str) -> bool:
    """Whether this word of a command line is one of them."""
    if values.nullable and word in _NOTHING:
        return True
    if values.kind not in _DECODED:
        scaled = values.kind in ("integer", "number") and _SUFFIX.fullmatch(word.strip())
        return not scaled and takes(values, word)
    try:
        return takes(values, json.loads(_expanded(word)))
    except (ValueError, RecursionError):
        return False


def takes(values: Values, value: Any) -> bool:
    """Whether this value is one of them. A text stands for what it reads as, as pydantic has it."""
    if value is None:
        return values.nullable
    if values.choices is not None and _among(values, value):
        return True
    if values.kind is None:
        return values.choices is None
    if values.kind in ("integer", "size", "number"):
        return _number_fits(values, value)
    return {
        "switch": str(value).lower() in _SWITCHES,
        "object": isinstance(value, dict),
        "array": isinstance(value, list),
        "json": True,
    }[values.kind]


def described(values: Values) -> str:
    """`a whole number of at least 1`; choices are left to the caller."""
    nouns = {
        "integer": "a whole number", "size": "a whole number, as 8192 or 8k",
        "number": "a number", "switch": "true or false", "object": "a JSON object",
        "array": "a JSON list", "json": "JSON", None: "one of its choices",
    }  # fmt: skip
    limits = (
        ("of at least", values.least), ("above", values.above),
        ("of at most", values.most), ("below", values.below),
    )  # fmt: skip
    said = " and ".join(f"{word} {at:g}" for word, at in limits if at is not None)
    return f"{nouns[values.kind]} {said}".rstrip()


def _among(values: Values, value: Any) -> bool:
    word = value if isinstance(value, str) else json.dumps(value)
    choices = values.choices or []
    if word in choices:
        return True
    if values.any_case:
        return _folded(word) in map(_folded, choices)
    try:  # numbers are written in several ways
        return str(int(word)) in choices
    except ValueError:
        return False


def _folded(word: str) -> str:
    return word.casefold().replace("-", "_")


def _number_fits(values: Values, value: Any) -> bool:
    number = _number(value, whole=values.kind != "number")
    return number is not None and not (
        (values.least is not None and number < values.least)
        or (values.above is not None and number <= values.above)
        or (values.most is not None and number > values.most)
        or (values.below is not None and number >= values.below)
    )


def _number(value: Any, *, whole: bool) -> float | None:
    if isinstance(value, int | float):
        return value if not whole or value == value // 1 else None
    if not isinstance(value, str):
        return None
    found = _SUFFIX.fullmatch(value.strip())
    if found and not (found[2] and found[3].isupper()):
        return float(found[1] + (found[2] or "")) * _unit(found[3])
    try:
        return int(value) if whole else float(value)
    except ValueError:
        return None


def _unit(letter: str) -> int:
    return int((1000 if letter.islower() else 1024) ** _POWERS[letter.lower()])


def _expanded(text: str) -> str:
    """vLLM reads numbers such as 80g within JSON too, outside of its strings."""

    def number(found: re.Match[str]) -> str:
        return found[0] if found[0][0] == '"' else f"{_number(found[0], whole=True) or 0:.0f}"

    return _IN_JSON.sub(number, text)
