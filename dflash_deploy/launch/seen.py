"""How the servers that run are: the state of each, and what its own counters say."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import repeat

from dflash_deploy.engine_schema import Engine
from dflash_deploy.errors import DFlashError
from dflash_deploy.launch import containers, elsewhere, servers, state
from dflash_deploy.launch.containers import BoxedServer
from dflash_deploy.launch.elsewhere import Elsewhere
from dflash_deploy.launch.servers import HEALTH_TIMEOUT, READY
from dflash_deploy.launch.signs import signs
from dflash_deploy.launch.state import UNCHECKED, UNPROVEN
from dflash_deploy.measure.live import Numbers, Reading, numbers, reading
from dflash_deploy.measure.metrics import names_of, read_metrics
from dflash_deploy.measure.verdict import state_of
from dflash_deploy.plan import Endpoint

WINDOW = 10.0
"""Seconds over which `Watch` looks back: long enough for a step of the engines' own logging."""
PATIENCE = 2.0
"""Seconds a server gets to say its numbers."""
AT_ONCE = 16
ENOUGH = 10
"""Cycles before counters speak against a draft: a short answer is soon unlucky."""
PROVING = "proving the draft"
"""It answers, and who started it is about to ask whether it speculates."""

Server = state.Record | BoxedServer
"""A process of ours, or a container."""
Watched = Server | Elsewhere
"""Those, or what somebody else runs."""


@dataclass(frozen=True)
class Seen:
    record: Watched
    state: str
    numbers: Numbers
    speculation: str | None = None
    """Of a server that is ready: what its counters say of the draft, or else the last check."""


@dataclass
class _Kept:
    """What is remembered of one server between two looks."""

    readings: deque[Reading] = field(default_factory=deque)
    state: str = ""
    asked: float = float("-inf")


def glance(
    engines: Mapping[str, Engine], records: Sequence[Server], patience: float = HEALTH_TIMEOUT
) -> list[Seen]:
    """One look at each server, and what it counted since it started."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(_glance, repeat(engines), records, repeat(patience)))


def condition(engine: Engine, record: Watched, patience: float = HEALTH_TIMEOUT) -> str:
    if isinstance(record, Elsewhere):
        return elsewhere.condition(record)
    told = signs(engine, record.version)
    if isinstance(record, BoxedServer):
        return containers.condition(record, told, patience)
    return servers.condition(record, told, patience)


def _glance(engines: Mapping[str, Engine], record: Server, patience: float) -> Seen:
    engine = engines[record.engine]
    found = None if record.ended else _read(record)
    counted = numbers(found) if found else Numbers()
    words = condition(engine, record, patience)
    return _judged(record, words, counted, counted)


class Watch:
    """Looks again and again; numbers are of the last `WINDOW` seconds."""

    def __init__(self, engines: Mapping[str, Engine]) -> None:
        self._engines = engines
        self._kept: dict[str, _Kept] = {}

    def look(self, records: Sequence[Watched]) -> list[Seen]:
        """Servers may come and go between two looks."""
        self._kept = {r.launch_id: self._kept.get(r.launch_id) or _Kept() for r in records}
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return list(pool.map(self._look, records))

    def _look(self, record: Watched) -> Seen:
        kept, engine = self._kept[record.launch_id], self._engines[record.engine]
        found = None if record.ended else _read(record)
        now = time.monotonic()
        # SGLang generates a token to say that it is healthy: one that counts is asked less often
        if found is None or kept.state != READY or now - kept.asked > WINDOW:
            kept.state, kept.asked = condition(engine, record), now
        if found is None:
            kept.readings.clear()
            return _judged(record, kept.state, Numbers(), Numbers())
        while len(kept.readings) > 1 and found.at - kept.readings[1].at >= WINDOW:
            kept.readings.popleft()
        kept.readings.append(found)
        counted = numbers(found, kept.readings[0])
        # one that is idle was seen to speculate before
        telling = counted if counted.acceptance_length else numbers(found)
        return _judged(record, kept.state, counted, telling)


def _read(record: Watched) -> Reading | None:
    at = Endpoint(record.base_url, record.served_names[0], record.engine, record.version)
    try:
        text = read_metrics(at, timeout=PATIENCE)
        now = time.monotonic()
        return reading(text, names_of(record.engine, record.version), now) if text else None
    except (DFlashError, ValueError):  # nobody answers, or what answers is no exposition
        return None


def _judged(record: Watched, words: str, counted: Numbers, telling: Numbers) -> Seen:
    """A server whose draft does nothing is healthy in every other way: `telling` shows it."""
    if words != READY:
        return Seen(record, words, counted)
    if not record.ready and record.speculation is None:
        return Seen(record, PROVING, counted)
    found = record.speculation or UNPROVEN
    length, few = telling.acceptance_length, (telling.cycles or ENOUGH) < ENOUGH
    if length is not None:
        counts = state_of(length, record.expected_length)
        found = found if few and counts != "fine" else counts
    quiet = found in ("fine", UNCHECKED)
    return Seen(record, READY if quiet else f"{READY}, speculation {found}", counted, found)
