"""The process that trains: started, listened to, stopped."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from dflash_deploy.cli import _output
from dflash_deploy.errors import DFlashError, DoesNotFit, EngineError, Interrupted
from dflash_deploy.launch.signals import FORWARDED, forwarded
from dflash_deploy.train.events import Event, interrupted

EVERY = 10.0
"""Seconds between two lines in a pipe."""
NEEDED = ("torch", "transformers", "safetensors")
SPIN = {"GOMP_SPINCOUNT": "10000"}
"""Threads that wait sleep sooner: on cores shared with others, spinning costs most of the time."""
TITLES = {
    "prompts": "prompts of the target's own",
    "answers": "answers of the target",
    "train": "steps",
    "acceptance": "prompts to measure acceptance",
}


def work(folder: Path) -> None:
    """Do what is left of the run. Raises what went wrong over there."""
    check_installed()
    argv = [sys.executable, "-m", "dflash_deploy.train", str(folder)]
    environment = SPIN | os.environ | {"HF_HUB_DISABLE_TELEMETRY": "1", "DO_NOT_TRACK": "1"}
    # a session of its own: a Ctrl-C reaches it once, through us
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=environment,
        start_new_session=True,
    ) as process:  # fmt: skip
        error: DFlashError | None = None
        with forwarded(process) as came, Progress() as progress:  # type: ignore[arg-type]
            for line in process.stdout or ():
                with contextlib.suppress(msgspec.DecodeError):  # a library that prints
                    event = msgspec.json.decode(line, type=Event)
                    progress.show(event)
                    error = event.error.as_error() if event.error else error
            code = process.wait()
    if code:
        raise why(folder, code, error, came)


def why(folder: Path, code: int, error: DFlashError | None, came: Sequence[int]) -> DFlashError:
    """What ended the run. `error`: its own word; `came`: the signals that were passed on to it."""
    if error is not None and error.code != Interrupted.code:
        return error
    if came or -code in FORWARDED:
        return interrupted(folder, came[0] if came else -code)
    return error or ended(code)


def ended(code: int) -> DFlashError:
    """The error for an end without a word."""
    if code == -signal.SIGKILL:
        return DoesNotFit(
            "training was killed, most likely because the machine ran out of memory",
            hint="--batch-size, --anchors or --max-length smaller, and another --output",
        )
    return DFlashError(
        f"training ended with code {code}; what it printed says why",
        hint="the same command goes on with it",
    )


def check_installed() -> None:
    import importlib.util

    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise EngineError(
            f"training needs {', '.join(missing)}", hint="pip install 'dflash-deploy[local]'"
        )


class Progress:
    """How far it is: one line on a terminal, a line now and then in a pipe."""

    def __init__(self) -> None:
        self._stage: str | None = None
        self._first = self._started = self._last = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        if _output.redraws():
            _output.status("")

    def show(self, event: Event) -> None:
        if event.stage is None:
            if event.said:
                _output.note(event.said)
            return
        if event.stage == "load":
            _output.phase(f"loading {event.said}")
            return
        now = time.monotonic()
        if event.stage != self._stage:
            self._stage, self._started, self._first = event.stage, now, event.done
            self._last = 0.0
        line = self._line(event, now)
        if event.done == event.total:
            if _output.redraws():
                _output.status("")
            _output.note(line)
        elif _output.redraws():
            _output.status(line)
        elif now - self._last >= EVERY:
            _output.note(line)
            self._last = now

    def _line(self, event: Event, now: float) -> str:
        said = f"; {event.said}" if event.said else ""
        line = f"{event.done} of {event.total} {TITLES[event.stage or 'train']}{said}"
        done = event.done - self._first
        if done > 0 and event.done < event.total:
            left = (now - self._started) / done * (event.total - event.done)
            line += f"; {span(left)} left"
        return line


def span(seconds: float) -> str:
    """As a person says it: 40 s, 12 min, 3.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
