"""`dflash serve --docker`: the same plan in the engine's own image, under the Docker daemon."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from dflash_deploy import hardware
from dflash_deploy.cli import _output
from dflash_deploy.cli._planning import Wanted, planned, request_for
from dflash_deploy.cli._running import announce, check_plain, headline, ready
from dflash_deploy.cli._serving import Gate, unproven
from dflash_deploy.container import Container, check_carried, container, devices
from dflash_deploy.errors import Interrupted
from dflash_deploy.launch.container import FOREVER, box_up
from dflash_deploy.launch.daemon import connected
from dflash_deploy.launch.endings import died
from dflash_deploy.launch.named import check_port_free
from dflash_deploy.launch.servers import check_not_ours
from dflash_deploy.launch.signals import forwarded
from dflash_deploy.launch.signs import Signs, signs
from dflash_deploy.no_room import check_free
from dflash_deploy.plan import Plan
from dflash_deploy.registry import load
from dflash_deploy.schema import Gpu


@dataclass(frozen=True)
class Boxing:
    plan: Plan
    box: Container
    signs: Signs


class Pulling:
    """How far the image is: a line drawn over itself, or said once where nobody watches."""

    def __init__(self) -> None:
        self._said = False

    def __call__(self, line: str) -> None:
        if _output.redraws():
            _output.status(line)
        elif not self._said and line:
            _output.note(line)
            self._said = True


def in_container(wanted: Wanted, gate: Gate, *, detach: bool, restart: int, wait: bool) -> int:
    """Until it ends, or with `detach` until it has proven itself; the command's exit code.

    Without `wait` it is left to itself at once, and nobody checks its draft.
    """
    made = _prepared(wanted)
    output = None if detach or sys.stderr is None else sys.stderr.buffer
    with (
        connected() as client,
        box_up(
            client, made.plan, made.box, signs=made.signs, output=output, say=Pulling()
        ) as server,
        forwarded(server) as asked,
    ):  # fmt: skip
        _output.note(f"{made.box.name} runs {made.box.image}")
        if wait:
            ready(made.plan, server, gate=gate.acceptance, timeout=gate.timeout, json=gate.json,
                  alone=detach)  # fmt: skip
        if detach:
            if asked:
                raise Interrupted("stopped before it was left to itself")
            server.keep(_policy(restart))
        else:
            code = server.wait()
    if detach:
        _left_alone(made, gate, proven=wait)
        return 0
    if not asked:
        end = died(made.plan.engine, code, server.tail, "while it served", made.signs)
        _output.error(end, as_json=False)
        return code or end.exit_code
    return 130 if signal.SIGINT in asked else code


def _left_alone(made: Boxing, gate: Gate, *, proven: bool) -> None:
    name = made.box.name
    if proven:
        _output.note(f"it runs on as {name}: dflash logs {name}, dflash stop {name}")
        return
    if gate.json:
        unproven(made.plan)
    _output.note(f"it starts as {name}: dflash ps shows how far it is, and how to try its draft")


def _prepared(wanted: Wanted) -> Boxing:
    """What can be refused is refused before the daemon is asked for anything."""
    registry = load(wanted.registry)
    engine = registry.engines[request_for(registry, wanted).engine]
    plan = planned(registry, wanted)
    check_carried(plan)
    box = on_own_cards(container(plan, engine).here, plan, registry.gpus)
    check_not_ours(plan.host, plan.port)
    check_port_free(plan.host, plan.port)
    check_plain(plan)
    check_free(plan.hardware, plan.cards_here, plan.memory, plan.engine)
    announce(plan)
    _output.note(headline(plan))
    return Boxing(plan, box, signs(engine, plan.version))


def on_own_cards(box: Container, plan: Plan, gpus: Sequence[Gpu]) -> Container:
    """A card that was only named is one that this process may use: Docker counts them all."""
    if plan.hardware.origin != "given":
        return box
    mine = devices(msgspec.structs.replace(plan, hardware=hardware.probe(gpus)))
    return replace(box, devices=mine)


def _policy(restart: int) -> dict[str, object]:
    """As the printed line has it, unless a number of restarts was asked for."""
    return {"Name": "on-failure", "MaximumRetryCount": restart} if restart else dict(FOREVER)
