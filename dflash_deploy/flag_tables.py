"""The flags of each engine release, as its own argument parser lists them; and reading an argv.

Tables are files of `registry/engines/flags`, made by `make engine-release`. A release without one
takes the table of the release before it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

import msgspec
from packaging.version import Version

from dflash_deploy.flag_values import Values
from dflash_deploy.resources import registry_root
from dflash_deploy.schema import Struct

_NUMBER = re.compile(r"-\d+(\.\d+)?")


class Key(Values, frozen=True, kw_only=True):
    """A key of an option's JSON object, and what may stand there."""

    name: str


class Flag(Values, frozen=True, kw_only=True):
    """One option of a release, and what its words may be."""

    name: str
    takes: Literal["none", "one", "optional", "many"]
    """How many words follow it."""
    aliases: list[str] = []  # noqa: RUF012 - msgspec copies it
    negatives: list[str] = []  # noqa: RUF012
    """Spellings of the opposite: `--no-x`."""
    keys: list[Key] = []  # noqa: RUF012
    """What its JSON object may hold; empty: anything, or nobody has asked."""

    def key(self, name: str) -> Key | None:
        return next((key for key in self.keys if key.name == name), None)


class FlagTable(Struct, frozen=True, kw_only=True, dict=True):
    """Every option of one release."""

    engine: str
    version: str
    flags: list[Flag]

    def names(self) -> Mapping[str, Flag]:
        """Each spelling, with its flag; a key of a JSON object stands after a dot."""
        return self._names

    @cached_property
    def _names(self) -> dict[str, Flag]:
        return {
            name: flag
            for flag in self.flags
            for name in (flag.name, *flag.aliases, *flag.negatives,
                         *(f"{flag.name}.{key.name}" for key in flag.keys))
        }  # fmt: skip


@dataclass(frozen=True)
class Given:
    """One option of a command line, or a word that belongs to none."""

    flag: str | None
    """Its full name in the table, or as it was written where the table has none; None: a word."""
    words: tuple[str, ...] = ()
    as_written: str = ""
    known: bool = True
    """Whether this release has it."""
    candidates: tuple[str, ...] = ()
    """For an abbreviation that may mean several."""
    row: Flag | None = field(default=None, compare=False)
    raw: tuple[str, ...] = field(default=(), compare=False)
    """The words of the command line that it was read from."""

    def knows(self, option: str) -> bool:
        """Whether this release has it; of a key after a dot, where its keys are known."""
        key = option.partition(".")[2]
        free = self.row is None or not self.row.keys
        return self.known and (not key or free or (self.row and self.row.key(key)) is not None)


def flag_table(engine: str, version: Version) -> FlagTable | None:
    """The table of a release, or of the newest before it; None for one older than all tables."""
    older = [known for known in _known(engine) if known <= version]
    return _read(engine, older[-1]) if older else None


def tables(engine: str) -> list[FlagTable]:
    """Every table of an engine, oldest first."""
    return [_read(engine, version) for version in _known(engine)]


def first_with(engine: str, name: str) -> str | None:
    """The first release whose table has this spelling."""
    return next((t.version for t in tables(engine) if name in t.names()), None)


def last_with(engine: str, name: str) -> str | None:
    """The last release whose table has this spelling."""
    return next((t.version for t in reversed(tables(engine)) if name in t.names()), None)


def parse(table: FlagTable | None, argv: Iterable[str]) -> list[Given]:
    """Split a command line into options with their words, and words that belong to none.

    An unknown option takes the words up to the next one. `--x=value`, vLLM's underscores and
    dotted `--x.key value`, and unique abbreviations are read as the engines' parsers read them.
    """
    names = table.names() if table else {}
    found: list[Given] = []
    room = 0
    for word in argv:
        if word.startswith("-") and len(word) > 1 and not _NUMBER.fullmatch(word):
            given, room = _option(word, names)
            found.append(replace(given, raw=(word,)))
        elif room and found:
            last = found[-1]
            found[-1] = replace(last, words=(*last.words, word), raw=(*last.raw, word))
            room -= 1
        else:
            found.append(Given(None, (word,), word, raw=(word,)))
    return found


_UNLIMITED = 1 << 30
_ROOM = {"none": 0, "one": 1, "optional": 1, "many": _UNLIMITED}


def _option(word: str, names: Mapping[str, Flag]) -> tuple[Given, int]:
    """The option a word names, and how many words may follow it."""
    if not word.startswith("--") and word not in names and word[:2] in names and word[2] != ".":
        word = f"{word[:2]}={word[2:].removeprefix('=')}"  # a letter with its value behind it
    written, equals, value = word.partition("=")
    words = (value,) if equals else ()
    row, candidates = _look_up(written, names)
    if row is None:
        known = not names  # without a table nothing can be said
        return Given(written, words, written, known, candidates), 0 if equals else _UNLIMITED
    negative = written.replace("_", "-") in row.negatives
    name = _opposite(row, written.replace("_", "-")) if negative else row.name
    room = _ROOM[row.takes] if not equals else 0
    return Given(name, words, written, row=row), room


def _opposite(row: Flag, written: str) -> str:
    """`--no-enable-x` for `--disable-x` as well, which mean the same."""
    return next((name for name in row.negatives if name.startswith("--no-")), written)


def _look_up(written: str, names: Mapping[str, Flag]) -> tuple[Flag | None, tuple[str, ...]]:
    if written in names:
        return names[written], ()
    plain = written.replace("_", "-").split(".")[0].rstrip("+")
    if plain in names:
        return names[plain], ()
    if not written.startswith("--"):
        return None, ()
    longer = {flag.name: flag for name, flag in names.items() if name.startswith(plain)}
    if len(longer) == 1:
        return next(iter(longer.values())), ()
    return None, tuple(sorted(longer))


def json_object(text: str) -> dict[str, Any]:
    """A JSON object, as some options take it; empty for anything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _folder() -> Path:
    return registry_root() / "engines" / "flags"


@cache
def _known(engine: str) -> tuple[Version, ...]:
    names = (path.stem.removeprefix(f"{engine}-") for path in _folder().glob(f"{engine}-*.json"))
    return tuple(sorted(Version(name) for name in names))


@cache
def _read(engine: str, version: Version) -> FlagTable:
    return msgspec.json.decode(
        (_folder() / f"{engine}-{version}.json").read_bytes(), type=FlagTable
    )
