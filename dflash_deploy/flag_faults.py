"""What a release does not take of an option that it has: a word, or a value in its JSON. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass

from dflash_deploy.flag_tables import Flag, Given
from dflash_deploy.flag_values import Values, described, takes, takes_word
from dflash_deploy.json_options import dotted_path, keys, text

_SHOWN = 12


@dataclass(frozen=True)
class Fault:
    """A word or value that a release refuses."""

    option: str
    """The flag, with the key after a dot."""
    word: str
    wants: Values
    spare: bool = False
    """Said to an option that takes none."""

    @property
    def said(self) -> str:
        """As it was said, in full."""
        return f"{self.option} {self.word}".rstrip()

    @property
    def says(self) -> str:
        """Behind the option and the word: what is wrong with it."""
        if self.spare:
            return "it takes no value"
        if self.wants.kind is None:
            return "not among its choices" if self.wants.choices else "it needs a value"
        return f"it takes {described(self.wants)}"

    @property
    def accepted(self) -> list[str]:
        """The choices, what is most like the word first."""
        choices, word = self.wants.choices or [], self.word.lower()
        alike = {name: difflib.SequenceMatcher(None, word[:80], name.lower()).ratio()
                 for name in choices}  # fmt: skip
        return sorted(choices, key=lambda name: -alike[name])

    @property
    def hint(self) -> str:
        """What to write instead."""
        if self.spare:
            return f"{self.option} alone"
        if self.wants == Values():
            return f"{self.option} ..."
        if self.wants.kind is None:
            more = len(self.accepted) - _SHOWN
            tail = f" and {more} more" if more > 0 else ""
            return f"one of {', '.join(self.accepted[:_SHOWN])}{tail}"
        return f"{self.option} {_example(self.wants)}"


def fault(given: Given) -> Fault | None:
    """The first word or value of an option that its release does not take."""
    return next(_faults(given), None)


def _faults(given: Given) -> Iterator[Fault]:
    row = given.row
    if row is None:
        return
    if row.takes == "none" or given.flag in row.negatives:
        for word in given.words[:1]:
            yield Fault(given.flag or "", word, Values(), spare=True)
        return
    if dotted_path(given):
        yield from _in_json(given, row)
        return
    if row.takes == "one" and not given.words:
        yield Fault(given.flag or "", "", wanted(row))
    for word in given.words:
        if not takes_word(row, word):
            yield Fault(given.flag or "", word, wanted(row))
    yield from _in_json(given, row)


def wanted(row: Flag) -> Values:
    """What its words may be, without its name."""
    return Values(**{name: getattr(row, name) for name in Values.__struct_fields__})


def _in_json(given: Given, row: Flag) -> Iterator[Fault]:
    if any(part.endswith("+") for part in dotted_path(given)):  # adds to a list
        return
    for name, value in keys(given).items():
        key = row.key(name)
        if key and not takes(key, value):
            yield Fault(f"{given.flag}.{name}", text(value), key)


def _example(wants: Values) -> str:
    if wants.kind in ("integer", "size", "number"):
        lowest = wants.least if wants.least is not None else (wants.above or 0) + 1
        fits = wants.most is None or lowest <= wants.most
        return f"{lowest if fits else wants.most:g}"
    return {"switch": "true", "array": "'[...]'"}.get(str(wants.kind), "'{...}'")
