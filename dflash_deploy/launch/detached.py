"""A server that outlives its command, as the command sees it until it is ready."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from dflash_deploy.errors import LaunchError
from dflash_deploy.launch import journal, state
from dflash_deploy.launch.keeper import FIRST_BACKOFF, Kept, Order
from dflash_deploy.launch.output import Tail
from dflash_deploy.launch.process import GRACE
from dflash_deploy.launch.secrets import check_secrets
from dflash_deploy.launch.servers import claim
from dflash_deploy.launch.signs import Signs
from dflash_deploy.plan import Plan


def record_of(plan: Plan, name: str, *, log: Path | None, restart: int = 0) -> state.Record:
    """What is written down of a server of this process; `pid` and `began` may change hands."""
    return state.Record(
        name=name, model=plan.model, engine=plan.engine, version=plan.version, host=plan.host,
        port=plan.port, base_url=plan.base_url, health_path=plan.health_path,
        served_names=plan.served_names, argv=plan.argv,
        plan=state.Summary(
            draft=plan.draft.id, block_size=plan.block_size, context=plan.context,
            concurrency=plan.concurrency, tensor_parallel=plan.tensor_parallel,
            expected_length=plan.expectation.acceptance_length if plan.expectation else None,
        ),
        pid=os.getpid(), began=state.beginning(os.getpid()) or "", launch_id=uuid.uuid4().hex,
        since=datetime.now(UTC).isoformat(timespec="seconds"),
        detached=log is not None, log=str(log) if log else None, restart=restart,
    )  # fmt: skip


class Detached:
    """Ends with the block unless it was kept, however the block or this process ends."""

    def __init__(self, record: state.Record, signs: Signs) -> None:
        self.record = record
        self.engine = record.engine
        self.signs = signs
        self.stop_asked = False
        self._phase: str | None = None
        self._tail = Tail(self._notice)
        self._keeper: subprocess.Popen[bytes] | None = None
        self._kept = False
        self._reader = journal.Reader(Path(record.log or os.devnull))

    def run(self, order: Order, environ: Mapping[str, str]) -> None:
        """Start it, and write down that it runs. Raises LaunchError and UsageError."""
        check_secrets(order.plan, environ)
        with claim(self.record), _fresh_log(self.record) as log:
            self._keeper = subprocess.Popen(
                [sys.executable, "-P", "-m", "dflash_deploy.launch.keeper", self.record.name],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env=dict(environ),
                start_new_session=True,
            )
            pid = self._keeper.pid
            self.record = msgspec.structs.replace(
                self.record, pid=pid, began=state.beginning(pid) or ""
            )
            try:
                state.write(self.record)
            except LaunchError:
                self._keeper.kill()
                raise
        self._write(msgspec.json.encode(msgspec.structs.replace(order, record=self.record)) + b"\n")

    @property
    def phase(self) -> str | None:
        """What the log said last; see signs.py."""
        self._read()
        return self._phase

    @property
    def tail(self) -> tuple[str, ...]:
        """The last lines of its output."""
        self._read()
        return self._tail.lines

    def poll(self) -> int | None:
        """The exit code, or None while it runs."""
        return _as_code(self._running.poll())

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; raises subprocess.TimeoutExpired."""
        code = _as_code(self._running.wait(timeout))
        return 0 if code is None else code

    def terminate(self) -> None:
        """Ask it to stop; it is killed when the grace period is over."""
        self.stop_asked = True
        self._running.terminate()

    def kill(self) -> None:
        """Asked again, it ends the whole tree now."""
        self.terminate()

    def keep(self, speculation: str | None) -> None:
        """From now on it outlives this process. Raises LaunchError."""
        if not self._write(msgspec.json.encode(Kept(speculation)) + b"\n"):
            raise LaunchError("the server ended when it was to be left alone")
        self._kept = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self._keeper is None:
            return
        if not self._kept:
            if self._keeper.poll() is None and not self.stop_asked:
                self.terminate()
            self._keeper.wait()
            # one that was killed could not do this by itself
            state.remove(self.record)
        if self._keeper.stdin:
            with contextlib.suppress(OSError):
                self._keeper.stdin.close()
        self._reader.close()

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        if self._keeper is None:
            raise RuntimeError("the server was not started")
        return self._keeper

    def _write(self, words: bytes) -> bool:
        pipe = self._running.stdin
        try:
            if pipe:
                pipe.write(words)
                pipe.flush()
        except OSError:
            return False
        return True

    def _read(self) -> None:
        while chunk := self._reader.read():
            self._tail.feed(chunk)

    def _notice(self, line: str) -> None:
        self._phase = self.signs.phase_of(line) or self._phase


@contextlib.contextmanager
def _fresh_log(record: state.Record) -> Iterator[int]:
    """A file for what the keeper itself may have to say; an earlier server's log moves on."""
    path = Path(record.log or os.devnull)
    journal.Journal(path).turn()
    try:
        descriptor = journal.opened(path)
    except OSError as error:
        raise state.unwritable(error) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _as_code(code: int | None) -> int | None:
    return 128 - code if code is not None and code < 0 else code


def detach(
    plan: Plan,
    name: str,
    *,
    executable: Path,
    signs: Signs,
    environ: Mapping[str, str] = os.environ,
    restart: int = 0,
    check: bool = True,
    waited: bool = True,
    grace: float = GRACE,
    backoff: float = FIRST_BACKOFF,
) -> Detached:
    """Start the plan's engine under a keeper of its own."""
    record = record_of(plan, name, log=state.log_of(name), restart=restart)
    server = Detached(record, signs)
    server.run(Order(plan, str(executable), record, grace, backoff, check, waited), environ)
    return server
