"""The servers that a benchmark measures: started for it one after another, or there already."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import msgspec

from dflash_deploy.cli import _output
from dflash_deploy.cli._bench_setup import Asked, heaviest, others, whole_numbers
from dflash_deploy.cli._planning import Wanted, planned
from dflash_deploy.cli._running import ended_meanwhile, prepared, ready
from dflash_deploy.errors import LaunchError, UnknownModel, UsageError
from dflash_deploy.hardware import Hardware
from dflash_deploy.launch import state
from dflash_deploy.launch.endings import gone
from dflash_deploy.launch.journal import Journal
from dflash_deploy.launch.process import EngineProcess, start
from dflash_deploy.launch.signs import Signs
from dflash_deploy.measure.arms import dflash_arm, other_arm, plain_arm, plainly
from dflash_deploy.measure.bench import Side
from dflash_deploy.measure.connection import served_models
from dflash_deploy.measure.proof import endpoint_of
from dflash_deploy.measure.report import Arm, Load
from dflash_deploy.measure.synthetic import made_up
from dflash_deploy.plan import Endpoint, Plan, without_password
from dflash_deploy.registry import Registry
from dflash_deploy.schema import EngineName

MEASURED = "while it was measured"
PLAINLY = {"speculative": False}
"""What the embedded server is asked for an answer without its draft."""


class Servers(Protocol):
    """Servers that run side by side while their arms are measured."""

    @property
    def arms(self) -> tuple[Arm, ...]: ...

    def opened(self) -> Any:
        """A context manager: the sides, while their servers run."""


@dataclass(frozen=True)
class Field:
    """All that takes part."""

    servers: tuple[Servers, ...]
    engine: EngineName
    draft: str | None
    version: str | None
    hardware: Hardware


def log_name(arms: Sequence[Arm], port: int) -> str:
    """By which `dflash logs` shows what such a server wrote."""
    return f"bench-{arms[-1].name}-{port}"


@dataclass(frozen=True)
class Started:
    """One server that is started for its arms, and ends with them."""

    arms: tuple[Arm, ...]
    plan: Plan
    executable: Path
    signs: Signs
    timeout: float | None
    extras: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Said with each request, by arm."""

    @contextmanager
    def opened(self) -> Iterator[list[Side]]:
        _output.note(f"{', '.join(arm.name for arm in self.arms)}: starting the server")
        began = time.monotonic()
        name = log_name(self.arms, self.plan.port)
        log = Journal(state.log_of(name))
        log.turn()
        with (
            pointing_at(name),
            start(
                self.plan, executable=self.executable, output=log, signs=self.signs
            ) as process,
        ):  # fmt: skip
            ready(self.plan, process, gate="off", timeout=self.timeout, alone=True)
            took = round(time.monotonic() - began, 1)
            with ended_meanwhile(process, MEASURED):
                yield [
                    Side(msgspec.structs.replace(arm, ready_seconds=took), endpoint_of(self.plan),
                         self.extras.get(arm.name, {}), still_running(process))
                    for arm in self.arms
                ]  # fmt: skip


@dataclass(frozen=True)
class There:
    """Servers that somebody else started."""

    sides: tuple[Side, ...]

    @property
    def arms(self) -> tuple[Arm, ...]:
        return tuple(side.arm for side in self.sides)

    @contextmanager
    def opened(self) -> Iterator[list[Side]]:
        yield list(self.sides)


def still_running(process: EngineProcess) -> Callable[[], None]:
    def check() -> None:
        if ended := gone(process, MEASURED):
            raise ended

    return check


@contextmanager
def pointing_at(log: str) -> Iterator[None]:
    """Who is not told what to do about a server is told where its words are."""
    try:
        yield
    except LaunchError as error:
        error.hint = error.hint or f"dflash logs {log}"
        raise


def to_start(registry: Registry, asked: Asked, loads: tuple[Load, ...]) -> Field:
    """Plan every arm before the first is started, fetch what is needed, and say what starts.

    Without --block-sizes: the blocks that the registry takes for these loads.
    """
    blocks = whole_numbers("--block-sizes", asked.block_sizes)
    wanted = replace(asked.wanted, concurrency=heaviest(loads))
    _check_typed(registry, asked, wanted, blocks)
    made = prepared(replace(wanted, block_size=blocks[0] if blocks else None), asked.engine_env)
    known = replace(wanted, engine_version=made.plan.version)
    path = made.plan.target.path
    if path:
        known = replace(known, weights=made.plan.target.name)

    def plan(**changes: Any) -> Plan:
        return planned(registry, replace(known, **changes), target_path=path)

    own = None if blocks else made.plan.block_size
    if not blocks:
        alike = [plan(concurrency=load.concurrency).block_size for load in loads]
        blocks = tuple(sorted({made.plan.block_size, *alike}, reverse=True))
    # a block that nobody asked for comes as it is served, with its recipe's schedule
    plans = [plan() if block == own else plan(block_size=block) for block in blocks]
    dflash = drafting(registry, asked, plans)
    servers = _embedded(dflash) if made.plan.engine == "transformers" else _engines(plans, dflash)
    more: list[Start] = [
        ((arm,), each, {}) for arm, each in (other_arm(plans[0], o) for o in others(asked))
    ]
    return Field(
        tuple(
            Started(arms, each, made.executable, made.signs, asked.timeout, extras)
            for arms, each, extras in [*servers, *more]
        ),
        made.plan.engine, made.plan.draft.id, made.plan.version, made.plan.hardware,
    )  # fmt: skip


Start = tuple[tuple[Arm, ...], Plan, dict[str, dict[str, Any]]]


def _engines(plans: list[Plan], dflash: list[tuple[Arm, Plan]]) -> list[Start]:
    """A server an arm: what a draft takes of the memory and the graphs is part of its cost."""
    plain, bare = plain_arm(plans[0])
    return [((plain,), bare, {}), *(((arm,), each, {}) for arm, each in dflash)]


def _embedded(dflash: list[tuple[Arm, Plan]]) -> list[Start]:
    """The embedded server decodes plainly on request: one start, and arms that take turns."""
    (first, plan), *rest = dflash
    together: Start = ((plainly(first), first), plan, {"plain": PLAINLY})
    return [together, *(((arm,), each, {}) for arm, each in rest)]


def drafting(registry: Registry, asked: Asked, plans: list[Plan]) -> list[tuple[Arm, Plan]]:
    """The plans' own arms, acceptance made up where that is asked. Raises Unsupported."""
    rates: dict[int, tuple[float, ...]] = {}
    if asked.synthetic is not None:
        entry = registry.find(asked.wanted.model)
        blocks = [plan.block_size for plan in plans]
        rates = made_up(asked.synthetic, blocks, entry.model, entry.draft(plans[0].draft.id))
    return [dflash_arm(each, rates.get(each.block_size, ())) for each in plans]


def _check_typed(registry: Registry, asked: Asked, wanted: Wanted, blocks: tuple[int, ...]) -> None:
    """What no engine could do is told before one is looked for, or weights are fetched."""
    others(asked)
    if asked.synthetic is not None:
        sizes = blocks or (None,)
        plans = [planned(registry, replace(wanted, block_size=size)) for size in sizes]
        drafting(registry, asked, plans)


def there(registry: Registry, asked: Asked, url: str, cards: Hardware) -> Field:
    """The servers at --url and --baseline-url, side by side. Raises UsageError, LaunchError."""
    blocks = whole_numbers("--block-sizes", asked.block_sizes)
    block = blocks[0] if blocks else None
    endpoint, version = endpoint_at(url, asked)
    dflash = Arm(
        name=f"dflash-{block}" if block else "dflash", method="dflash", block_size=block,
        url=without_password(url),
    )  # fmt: skip
    sides = [_side(dflash, endpoint)]
    if asked.baseline_url is not None:
        plain = Arm(name="plain", method="plain", url=without_password(asked.baseline_url))
        sides.insert(0, _side(plain, endpoint_at(asked.baseline_url, asked)[0]))
    elif endpoint.engine == "transformers":
        sides.insert(0, _plainly(sides[0]))
    check_names(registry, asked.wanted.model, sides)
    return Field((There(tuple(sides)),), endpoint.engine, None, version, cards)


def _plainly(side: Side) -> Side:
    """The embedded server again, asked to leave its draft alone."""
    arm = msgspec.structs.replace(side.arm, name="plain", method="plain", block_size=None)
    return replace(side, arm=arm, extra=PLAINLY)


def _side(arm: Arm, endpoint: Endpoint) -> Side:
    def check() -> None:
        served_models(endpoint)

    return Side(arm, endpoint, check=check)


def check_names(registry: Registry, model: str, sides: Sequence[Side]) -> None:
    """Figures of another model would stand under the name of this one. Raises UsageError."""
    wanted = registry.find(model).id
    said = {side.endpoint.address: served_models(side.endpoint) for side in sides}
    for address, names in said.items():
        found = {_known(registry, name) for name in names}
        if wanted in found:
            continue
        if found != {None}:
            words = [names[0] if word == model else word for word in sys.argv[1:]]
            raise UsageError(
                f"{address} serves {names[0]}, and not {wanted}",
                hint=without_password(shlex.join(["dflash", *words])),
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


def endpoint_at(url: str, asked: Asked) -> tuple[Endpoint, str | None]:
    """What answers there: its engine and release, as it says itself. Raises LaunchError."""
    from dflash_deploy.cli._options import api_key_env
    from dflash_deploy.measure.connection import base_of, identity

    base = base_of(url)
    unnamed = Endpoint(base, "", "vllm", None, api_key_env())
    model = served_models(unnamed)[0]
    said, version = identity(unnamed)
    engine = asked.wanted.engine.value if asked.wanted.engine else said
    return Endpoint(base, model, engine, version, unnamed.api_key_env), version
