"""`python -m dflash_deploy.train FOLDER`: works on the run in the folder and says how far it is."""

from __future__ import annotations

import errno
import os
import signal
import sys
from pathlib import Path
from types import FrameType

import msgspec

from dflash_deploy.errors import DFlashError, DoesNotFit, UsageError, unread
from dflash_deploy.train.events import Event, failure, interrupted

SMALLER = "--batch-size, --anchors or --max-length smaller, and another --output"
NO_MEMORY = ("out of memory", "can't allocate memory", "DefaultCPUAllocator")


class Line:
    """The way to the process that asked: events to it, and its wish to stop from it."""

    def __init__(self) -> None:
        self.asked = False
        self._heard = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._signal)

    def say(self, event: Event) -> None:
        try:
            sys.stdout.buffer.write(msgspec.json.encode(event) + b"\n")
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            self.asked = True  # whoever asked is gone

    def stop(self) -> bool:
        self._heard = True
        return self.asked

    def _signal(self, _number: int, _frame: FrameType | None) -> None:
        # while nothing asks whether to stop, there is nothing to finish either
        if self.asked or not self._heard:
            raise KeyboardInterrupt
        self.asked = True


def main(arguments: list[str]) -> int:
    # takes seconds, and an exception in the midst of it has no end of its own: until all is there
    # a signal ends this process as it ends any other
    import dflash_deploy.train.work  # noqa: F401

    line = Line()
    try:
        _work(Path(arguments[0]), line)
    except DFlashError as error:
        line.say(Event(error=failure(error)))
        return error.exit_code
    return 0


def _work(folder: Path, line: Line) -> None:
    """Every failure that a user can do something about becomes a DFlashError."""
    from transformers.utils import logging

    from dflash_deploy.train import files
    from dflash_deploy.train.events import Stopped
    from dflash_deploy.train.work import Work

    logging.disable_progress_bar()
    logging.set_verbosity_error()
    key = "DFLASH_API_KEY" if os.environ.get("DFLASH_API_KEY") else None
    try:
        with files.alone(folder, lambda said: line.say(Event(said=said))):
            Work(folder, line.say, line.stop, key).run()
    except (Stopped, KeyboardInterrupt):
        raise interrupted(folder) from None
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise DoesNotFit(
                f"the disk of {folder} is full", hint="make room; the same command goes on"
            ) from error
        raise UsageError(
            f"{error.filename or folder}: {unread(error)}",
            hint="mend that; the same command goes on",
        ) from error
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, MemoryError) or any(part in str(error) for part in NO_MEMORY):
            raise DoesNotFit(
                "the memory does not hold this step", hint=SMALLER, detail=str(error)[:400]
            ) from error
        raise


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
