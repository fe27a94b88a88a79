"""One thing to be said of one part of a command."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, get_args

from dflash_deploy.explain.secret import shown
from dflash_deploy.flag_tables import Given
from dflash_deploy.secret_keys import secret_key

Verdict = Literal["wrong", "stale", "missing", "unneeded", "note", "fine"]
"""The gravest first."""


@dataclass(frozen=True)
class Judged:
    """`part` is as written, but for secrets; for what is missing, as it would be written."""

    part: str
    verdict: Verdict
    message: str
    source: str | None = None

    @property
    def legible(self) -> Judged:
        return replace(self, part=shown(self.part), message=shown(self.message))


def one_verdict(found: Iterable[Judged]) -> list[Judged]:
    """The gravest that was said of each part, in the order of the parts."""
    gravity = get_args(Verdict).index
    items = list(dict.fromkeys(found))
    least = {part: min(gravity(item.verdict) for item in items if item.part == part)
             for part in {item.part for item in items}}  # fmt: skip
    return [item for item in items if gravity(item.verdict) == least[item.part]]


def as_part(given: Given) -> str:
    """An option with its words."""
    if given.flag is None:
        return given.as_written
    option = given.as_written.partition("=")[0]
    words = ("...",) if "." in option and secret_key(given) else given.words
    return " ".join((option, *words))
