"""The two ways a server runs: in the foreground until it ends, or left to itself when ready."""

from __future__ import annotations

import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from dflash_deploy.cli import _output
from dflash_deploy.cli._planning import Wanted
from dflash_deploy.cli._running import prepared, ready
from dflash_deploy.errors import Interrupted
from dflash_deploy.launch.detached import detach, record_of
from dflash_deploy.launch.endings import died
from dflash_deploy.launch.process import start
from dflash_deploy.launch.servers import listed
from dflash_deploy.launch.signals import forwarded
from dflash_deploy.launch.state import UNCHECKED
from dflash_deploy.measure.proof import Proof, endpoint_of
from dflash_deploy.plan import Plan


@dataclass(frozen=True)
class Gate:
    """What must be seen before a server counts as ready."""

    acceptance: str
    """What an inactive draft does: `fail`, `warn`; or `off`, and it is not looked for."""
    timeout: float | None
    json: bool


def in_foreground(wanted: Wanted, gate: Gate, *, engine_env: Path | None) -> int:
    """Until the server ends, and all of it with this process; the exit code of the command."""
    made = prepared(wanted, engine_env)
    record = record_of(made.plan, made.name, log=None)
    output = None if sys.stderr is None else sys.stderr.buffer
    with (
        listed(record, _output.warning) as is_ready,
        start(
            made.plan, executable=made.executable, output=output, signs=made.signs,
            launch_id=record.launch_id,
        ) as process,
        forwarded(process) as signals,
    ):  # fmt: skip
        proof = ready(
            made.plan, process, gate=gate.acceptance, timeout=gate.timeout, json=gate.json
        )
        is_ready(found_by(proof))
        _tell_page(made.plan)
        code = process.wait()
    if not signals:
        # nobody asked it to end, so that an exit code of 0 is a failure as well
        end = died(record.engine, code, process.tail, "while it served", made.signs)
        _output.error(end, as_json=False)
        return code or end.exit_code
    return 130 if signal.SIGINT in signals else code


def unproven(plan: Plan) -> None:
    """The document of a server that nobody waited for."""
    _output.json({"endpoint": endpoint_of(plan), "ready_seconds": None,
                  "acceptance": None, "verdict": None})  # fmt: skip


def found_by(proof: Proof | None) -> str:
    """What is to be remembered of a check."""
    return proof.verdict.state if proof else UNCHECKED


def _tell_page(plan: Plan) -> None:
    """Where the engine has a page to look at: only this package's own has one."""
    if plan.engine == "transformers":
        _output.note(f"see it work in a browser: {plan.base_url}/")


def as_follower(wanted: Wanted, *, engine_env: Path | None) -> int:
    """A node that answers no client: it runs until the first one, or somebody, ends it."""
    made = prepared(wanted, engine_env)
    output = None if sys.stderr is None else sys.stderr.buffer
    with (
        start(made.plan, executable=made.executable, output=output, signs=made.signs) as process,
        forwarded(process) as signals,
    ):
        code = process.wait()
    return 130 if signal.SIGINT in signals else code


def in_background(
    wanted: Wanted, gate: Gate, *, engine_env: Path | None, restart: int, wait: bool
) -> None:
    """Until the server has proven itself; from then on it is its own. Or, unproven, at once."""
    made = prepared(wanted, engine_env)
    with (
        detach(
            made.plan, made.name, executable=made.executable, signs=made.signs, restart=restart,
            check=gate.acceptance != "off", waited=wait,
        ) as process,
        forwarded(process) as signals,
    ):  # fmt: skip
        _output.note(f"starting {made.name}; its log: {process.record.log}")
        proof = None
        if wait:
            proof = ready(made.plan, process, gate=gate.acceptance, timeout=gate.timeout,
                          json=gate.json, alone=True)  # fmt: skip
        if signals:
            raise Interrupted("stopped before it was left to itself")
        process.keep(found_by(proof) if wait else None)
    if wait:
        _tell_page(made.plan)
        _output.note(f"it runs on as {made.name}: dflash logs {made.name}, dflash stop {made.name}")
        return
    if gate.json:
        unproven(made.plan)
    _output.note(f"it starts as {made.name}: dflash ps shows how far it is, and its draft's state")
