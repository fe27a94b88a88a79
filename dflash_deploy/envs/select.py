"""Which environment serves: the newest installed release that the entry can use."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from packaging.version import InvalidVersion, Version

from dflash_deploy.envs import places
from dflash_deploy.envs.places import Environment


def ready(engine: str) -> list[Environment]:
    """The whole environments of an engine, the oldest release first."""
    return [each for each in places.every() if each.engine == engine and each.state == "ready"]


def newest(found: Sequence[Environment], floor: str | None) -> Environment | None:
    """The newest from `floor` on."""
    good = [each for each in found if floor is None or Version(each.version) >= Version(floor)]
    return good[-1] if good else None


def exact(found: Sequence[Environment], version: str) -> Environment | None:
    with suppress(InvalidVersion):
        wanted = Version(version)
        return next((each for each in found if Version(each.version) == wanted), None)
    return None
