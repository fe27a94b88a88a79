"""PROVISIONAL stand-in so that the package imports: the developer of flag_tables replaces this file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from packaging.version import Version


@dataclass(frozen=True)
class Given:
    flag: str | None
    words: tuple[str, ...]
    as_written: str
    known: bool


def flag_table(engine: str, version: Version) -> None:
    return None


def parse(table: object, argv: Iterable[str]) -> list[Given]:
    out: list[Given] = []
    for word in argv:
        if word.startswith("--"):
            name, eq, value = word.partition("=")
            out.append(Given(name, (value,) if eq else (), word, True))
        elif out:
            last = out[-1]
            out[-1] = Given(last.flag, (*last.words, word), last.as_written, True)
    return out
