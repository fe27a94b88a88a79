"""Whether a server that somebody else runs is still the one that was measured so far."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime

import msgspec

from dflash_deploy.errors import LaunchError
from dflash_deploy.measure.connection import served_models
from dflash_deploy.measure.live import reading
from dflash_deploy.measure.metrics import names_of, read_metrics
from dflash_deploy.plan import Endpoint

_BEGAN = re.compile(
    r"^(?:process_start_time_seconds|\w[\w:]*_created(?:\{.*\})?) (\S+)$", re.MULTILINE
)
"""prometheus_client's: when the process, and each of its counters, began."""


class Signs(msgspec.Struct, frozen=True):
    """What is seen of a server that another one could not have as well."""

    totals: Mapping[str, float] = {}
    """Of each counter since the start."""
    began: float | None = None
    """Seconds since 1970: the earliest of its counters. None: it does not say."""


class SameServer:
    """Remembers what was seen last of one server."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._last = Signs()

    def look(self) -> None:
        """Raises LaunchError where nobody answers any more, or another server than before."""
        names = served_models(self.endpoint)
        if self.endpoint.model not in names:
            raise self._replaced(f"it serves {names[0]} now, and not {self.endpoint.model}")
        text = read_metrics(self.endpoint)
        now = signs(text or "", self.endpoint)
        if now is None or not text:
            return  # one that keeps its counters to itself is no other server
        if why := other_server(self._last, now):
            raise self._replaced(why)
        self._last = now

    def _replaced(self, why: str) -> LaunchError:
        return LaunchError(
            f"another server answers at {self.endpoint.address} than before: {why}",
            hint="the same command again, once one server stays there: half of this is the other's",
        )


def signs(text: str, endpoint: Endpoint) -> Signs | None:
    """None: it is no exposition."""
    try:
        found = reading(text, names_of(endpoint.engine, endpoint.version), 0).counters
        began = min(map(float, _BEGAN.findall(text)), default=None)
    except ValueError:
        return None
    return Signs({key: sum(series.values()) for key, series in found.items()}, began)


def other_server(before: Signs, now: Signs) -> str | None:
    """Why these are signs of two servers; None: nothing says so."""
    if before.began is not None and now.began is not None and now.began > before.began:
        return f"it began at {datetime.fromtimestamp(now.began).astimezone():%H:%M:%S}"
    if any(now.totals.get(key, 0.0) < total for key, total in before.totals.items()):
        return "its counters fell back"
    return None
