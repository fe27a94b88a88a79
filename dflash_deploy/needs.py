"""Options that want another beside them. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from dflash_deploy.engine_schema import Wants
from dflash_deploy.reach import within
from dflash_deploy.situation import Situation, meaning_of


def unmet(at: Situation) -> Iterator[tuple[Wants, str]]:
    """What is said without what it needs, with the option that was said."""
    for need in at.engine.needs:
        if within(need.versions, at.version) and not any(is_said(at, each) for each in need.need):
            for flag in need.flags:
                if is_said(at, flag):
                    yield need, flag


def is_said(at: Situation, option: str) -> bool:
    """Whether a flag was said, and where a word stands behind it, with that word."""
    flag, _, word = option.partition(" ")
    words = at.settings.get(meaning_of(at.engine, flag))
    return words is not None and (not word or word in [each.lower() for each in words])
