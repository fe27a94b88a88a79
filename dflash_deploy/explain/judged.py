"""One thing to be said of one part of a command."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from dflash_deploy.explain.secret import shown
from dflash_deploy.flag_tables import Given
from dflash_deploy.secret_keys import secret_key

Verdict = Literal["fine", "stale", "wrong", "missing", "unneeded", "note"]


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


def as_part(given: Given) -> str:
    """An option with its words."""
    if given.flag is None:
        return given.as_written
    option = given.as_written.partition("=")[0]
    words = ("...",) if "." in option and secret_key(given) else given.words
    return " ".join((option, *words))
