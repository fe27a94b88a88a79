"""The two servers of a verification: started as for a benchmark, or there already and alike."""

from __future__ import annotations

import shlex

from dflash_deploy.cli._bench_servers import Field, There
from dflash_deploy.cli._bench_setup import Asked
from dflash_deploy.cli._benching import takes_part
from dflash_deploy.errors import UsageError
from dflash_deploy.measure.bench import Course
from dflash_deploy.registry import Registry


def pair(registry: Registry, asked: Asked, planned: Course) -> Field:
    """Plain decoding and one DFlash arm, on one server or two. Raises UsageError, LaunchError."""
    found = takes_part(registry, asked, planned)
    (servers, *_) = found.servers
    if isinstance(servers, There) and len(servers.sides) == 1:
        address = servers.sides[0].endpoint.address
        raise UsageError(
            f"{address} decodes as it was started: plain answers come from a second server",
            hint=f"dflash verify {shlex.quote(asked.wanted.model)} --url {address}"
            " --baseline-url http://localhost:8001",
        )
    return found
