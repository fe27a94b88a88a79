"""Which recipes can ever be chosen: whether one condition leaves anything to the next. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import get_args

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from dflash_deploy.engine_schema import Engine
from dflash_deploy.schema import Architecture, When

_ALL_ARCHITECTURES = frozenset(get_args(Architecture))
_OLDER, _NEWER = Version("0"), Version("9999")
"""Beside the known releases: an older one, and one that is still to come."""


@dataclass(frozen=True)
class Releases:
    """Every release a user may have, by engine."""

    of_engine: dict[str, frozenset[Version]]

    @classmethod
    def of(cls, engines: Mapping[str, Engine]) -> Releases:
        return cls(
            {
                name: frozenset(
                    {_OLDER, _NEWER, *(Version(release.version) for release in engine.releases)}
                )
                for name, engine in engines.items()
            }
        )


def is_range(text: str) -> bool:
    """Whether it is a PEP 440 range."""
    try:
        return len(SpecifierSet(text)) > 0
    except InvalidSpecifier:
        return False


def is_version(text: str) -> bool:
    """Whether it is a PEP 440 version."""
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


def as_release(version: Version) -> Version:
    """A pre-release counts as the release it comes before, whose code it has.

    PEP 440 leaves 0.5.14rc0 out of both `<0.5.14` and `>=0.5.14`.
    """
    return Version(version.base_version) if version.is_prerelease else version


def within(versions: str | None, version: Version) -> bool:
    """Whether a release is in a range."""
    return versions is None or _contains(versions, version)


@cache  # every rule asks, of few releases; to parse a range costs more than all the rest of a rule
def _contains(versions: str, version: Version) -> bool:
    return SpecifierSet(versions).contains(as_release(version))


def matching(when: When, releases: Releases) -> frozenset[tuple[str, Version]]:
    """The engines and releases that a condition holds for."""
    return frozenset(
        (engine, version)
        for engine, known in releases.of_engine.items()
        if when.engine in (None, engine)
        for version in known
        if within(when.version, version)
    )


def covers(earlier: When, later: When, releases: Releases) -> bool:
    """Whether `earlier` holds wherever `later` does, so that `later` is never reached."""
    return (
        matching(later, releases) <= matching(earlier, releases)
        and _architectures(later) <= _architectures(earlier)
        and (earlier.cards is None or {*(later.cards or ["any"])} <= {*earlier.cards})
        and (earlier.memory_at_least_gib or 0) <= (later.memory_at_least_gib or 0)
        and _as_limit(later.concurrency_at_most) <= _as_limit(earlier.concurrency_at_most)
        and earlier.kv_dtype in (None, later.kv_dtype)
        and earlier.thinking in (None, later.thinking)
    )


def _architectures(when: When) -> frozenset[str]:
    return _ALL_ARCHITECTURES if when.architecture is None else frozenset(when.architecture)


def _as_limit(concurrency: int | None) -> float:
    return float("inf") if concurrency is None else concurrency
