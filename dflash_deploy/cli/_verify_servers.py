"""The two servers of a verification: started as for a benchmark, or there already and alike."""

from __future__ import annotations

import shlex
from dataclasses import replace

import msgspec

from dflash_deploy.cli import _output
from dflash_deploy.cli._bench_servers import PLAINLY, Field, There
from dflash_deploy.cli._bench_setup import Asked
from dflash_deploy.cli._benching import takes_part
from dflash_deploy.errors import UnknownModel, UsageError
from dflash_deploy.measure.bench import Course, Side
from dflash_deploy.measure.connection import served_models
from dflash_deploy.registry import Registry


def pair(registry: Registry, asked: Asked, planned: Course) -> Field:
    """Plain decoding and one DFlash arm, on one server or two. Raises UsageError, LaunchError."""
    found = takes_part(registry, asked, planned)
    if not asked.url:
        return found
    sides = found.servers[0].sides if isinstance(found.servers[0], There) else ()
    _check_names(registry, asked.wanted.model, sides)
    if asked.baseline_url:
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


def _check_names(registry: Registry, model: str, sides: tuple[Side, ...]) -> None:
    """Another model's answers would differ for reasons of their own."""
    wanted = registry.find(model).id
    said = {side.endpoint.address: served_models(side.endpoint) for side in sides}
    for address, names in said.items():
        found = {_known(registry, name) for name in names}
        if wanted in found:
            continue
        if found != {None}:
            raise UsageError(
                f"{address} serves {names[0]}, and not {wanted}",
                hint=f"dflash verify {shlex.quote(names[0])} --url {address}",
            )
        if any(names[0] not in others for others in said.values()):
            raise UsageError(
                f"the servers serve different models: {', '.join(n[0] for n in said.values())}",
                hint=f"curl {address}/v1/models",
            )
        _output.warning(f"{address} serves {names[0]}, which is taken for {wanted}")


def _known(registry: Registry, name: str) -> str | None:
    try:
        return registry.find(name).id
    except UnknownModel:
        return None
