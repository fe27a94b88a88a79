"""The process that keeps a detached server: it outlives the command that started it.

Run as `python -P -m dflash_deploy.launch.keeper NAME` with a pipe as its standard input: first an
`Order` in one line, then, when the server has proven itself, a `Kept` in another. Before that, the
end of the pipe is the end of the server; after it, only signals are, or a crash. Its guard ends the
tree should this process be killed. A start that no command waits for is proven from here.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType

import msgspec

from dflash_deploy.errors import DFlashError, LaunchError
from dflash_deploy.launch import state
from dflash_deploy.launch.endings import died
from dflash_deploy.launch.health import time_allowed, wait_ready
from dflash_deploy.launch.journal import AGAIN, Journal
from dflash_deploy.launch.process import EngineProcess, start
from dflash_deploy.measure.proof import provable, prove
from dflash_deploy.plan import Plan

LOOK = 0.1
"""Seconds between two looks at the engine; a signal is passed on at once all the same."""
REWRITE = 20
"""Looks between two at the record: it is written again where that failed, or it was deleted."""
FIRST_BACKOFF, LONGEST_BACKOFF = 1.0, 60.0
STEADY = 600.0
"""Seconds after which a crash is the first one again."""


class Order(msgspec.Struct, frozen=True):
    """What is to be kept."""

    plan: Plan
    executable: str
    record: state.Record
    grace: float
    backoff: float = FIRST_BACKOFF
    check: bool = True
    """Whether starts that no command waits for are followed by the acceptance check."""
    waited: bool = True
    """Whether a command waits for the first start."""


class Kept(msgspec.Struct, frozen=True):
    """The word that it may stay, and what the command's check found of its draft."""

    speculation: str | None
    """None: no command waited for it."""


class Lines:
    """Standard input line by line, unbuffered: a thread that waits in a buffer of Python's would
    abort the process at its end.
    """

    def __init__(self) -> None:
        self._read = b""

    def next(self) -> bytes:
        """With its end, unless the other side is gone."""
        while b"\n" not in self._read and (chunk := os.read(0, 65536)):
            self._read += chunk
        line, end, self._read = self._read.partition(b"\n")
        return line + end


class Keeper:
    """Runs the engine, and again after a crash if that was asked for."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._record = order.record
        self._journal = Journal(Path(order.record.log or os.devnull))
        self._process: EngineProcess | None = None
        self._told = 0
        self._kept = threading.Event()
        self._noting = threading.Lock()
        self._forgotten = False
        self._behind = False
        """Whether the file says less than is known: the disk was full."""

    def run(self) -> int:
        """The exit code of the engine, or 0 after it was told to stop."""
        crashes = 0
        while True:
            began = time.monotonic()
            code, last_words = self._once()
            if self._told or not self._kept.is_set():
                self._forget()
                return code
            crashes = 0 if time.monotonic() - began > STEADY else crashes
            if crashes >= self._record.restart:
                self._note(ended=last_words)
                return code
            pause = min(self._order.backoff * 2**crashes, LONGEST_BACKOFF)
            crashes += 1
            limit = self._record.restart
            self.say(f"{last_words}; {AGAIN} in {pause:g} s ({crashes} of {limit})")
            self._note(restarts=self._record.restarts + 1, ready=False, speculation=None)
            if not self._slept(pause):
                self._forget()
                return 0

    def _once(self) -> tuple[int, str]:
        """One life of the engine: its exit code, and how it ended."""
        order, record = self._order, self._record
        with start(
            order.plan, executable=Path(order.executable), output=self._journal, grace=order.grace,
            launch_id=record.launch_id,
        ) as process:  # fmt: skip
            self._process = process
            if self._record.restarts or not order.waited:
                self._watch(process)
            if self._told:
                process.terminate()
            looks = 0
            while (code := process.poll()) is None:
                time.sleep(LOOK)
                looks += 1
                if looks % REWRITE == 0:
                    self.mend()
            self._process = None
        when = "while it served" if self._record.ready else "before it was ready"
        return code, died(record.engine, code, process.tail, when).message

    def _watch(self, process: EngineProcess) -> None:
        """Beside the looks at the engine: until it is ready, and its draft is proven."""
        threading.Thread(target=self._prove, args=[process], name="prove", daemon=True).start()

    def _prove(self, process: EngineProcess) -> None:
        plan = self._order.plan
        patience = time_allowed(plan.memory, plan.tensor_parallel)
        try:
            wait_ready(process, plan.base_url + plan.health_path, patience)
        except DFlashError as error:
            if process.poll() is None and not process.stop_asked:
                self.say(error.message)  # an end is told by who looks for it
                self._note(speculation=state.UNPROVEN)
            return
        wanted = self._order.check and provable(plan)
        found = self._proven() if wanted else state.UNCHECKED
        if self._process is process:
            self._note(ready=True, speculation=found)

    def _proven(self) -> str:
        try:
            found = prove(self._order.plan)
        except DFlashError as error:
            self.say(f"the acceptance check failed: {error.message}")
            return state.UNPROVEN
        self.say(found.verdict.message)
        for suspect in found.verdict.causes:
            self.say(f"look at: {suspect.cause}; try: {suspect.remedy}")
        return found.verdict.state

    def tell(self, _number: int = 0, _frame: FrameType | None = None) -> None:
        """The first time politely, the second time at once."""
        self._told += 1
        if self._process:
            if self._told == 1:
                self._process.terminate()
            else:
                self._process.kill()

    def listen(self, lines: Lines) -> None:
        """Wait for the word that it may stay."""
        line = lines.next()
        if not line.endswith(b"\n"):
            os.kill(os.getpid(), signal.SIGTERM)
            return
        kept = msgspec.json.decode(line, type=Kept)
        self._kept.set()
        if self._order.waited:
            self._note(ready=True, speculation=kept.speculation)

    def _note(self, **changes: object) -> None:
        """A record that cannot be written costs `ps` a line, and no server its life."""
        with self._noting, suppress(DFlashError):
            if self._forgotten:
                return
            self._record = msgspec.structs.replace(self._record, **changes)
            self._behind = True
            state.write(self._record)
            self._behind = False

    def mend(self) -> None:
        """Write the record again if its file is gone, or could not be written the last time."""
        if self._behind or not state.file_of(self._record.name).exists():
            self._note()

    def _forget(self) -> None:
        """From now on nothing is written down of it."""
        with self._noting:
            self._forgotten = True
            state.remove(self._record)

    def say(self, line: str) -> None:
        self._journal.write(f"dflash: {line}\n".encode())

    def _slept(self, seconds: float) -> bool:
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self._told:
            time.sleep(LOOK)
        return not self._told


def main() -> int:
    """Keep what the first line of standard input says."""
    lines = Lines()
    line = lines.next()
    if not line.endswith(b"\n"):
        return 0  # the command died, or thought better of it
    order = msgspec.json.decode(line, type=Order)
    keeper = Keeper(order)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, keeper.tell)
    threading.Thread(target=keeper.listen, args=[lines], name="listen", daemon=True).start()
    try:
        return keeper.run()
    except (DFlashError, OSError) as error:
        keeper.say(f"error: {error}")
        return LaunchError.exit_code


if __name__ == "__main__":
    sys.exit(main())
