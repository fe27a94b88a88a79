"""The two servers of a verification: started as for a benchmark, or there already and alike."""

from __future__ import annotations

import shlex
from dataclasses import replace

import msgspec

from dflash_deploy.cli._bench_servers import PLAINLY, Field, There
from dflash_deploy.cli._bench_setup import Asked
from dflash_deploy.cli._benching import takes_part
from dflash_deploy.errors import UsageError
from dflash_deploy.measure.bench import Course, Side
from dflash_deploy.registry import Registry


def pair(registry: Registry, asked: Asked, planned: Course) -> Field:
    """Plain decoding and one DFlash arm, on one server or two. Raises UsageError, LaunchError."""
    found = takes_part(registry, asked, planned)
    if asked.url is None:
        return found
    sides = found.servers[0].sides if isinstance(found.servers[0], There) else ()
    if asked.baseline_url is not None:
        return found
    if found.engine != "transformers":
        address = sides[0].endpoint.address
        raise UsageError(
            f"{address} decodes as it was started: plain answers come from a second server",
            hint=f"dflash verify {shlex.quote(asked.wanted.model)} --url {address}"
            " --baseline-url http://localhost:8001",
        )
    return replace(found, servers=(There((_plainly(sides[0]), sides[0])),))


def _plainly(side: Side) -> Side:
    """The embedded server again, asked to leave its draft alone."""
    arm = msgspec.structs.replace(side.arm, name="plain", method="plain", block_size=None)
    return replace(side, arm=arm, extra=PLAINLY)
