"""The files of a run: whole or not there at all; lines of a log, a cut one dropped."""

from __future__ import annotations

import fcntl
import os
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec

from dflash_deploy.errors import UsageError

T = TypeVar("T")
PATIENCE = 30.0
"""Seconds: a process whose command was killed ends after the step, or the answer, that it is at."""


@contextmanager
def alone(folder: Path, waiting: Callable[[str], None]) -> Iterator[None]:
    """Nobody else works in the folder meanwhile. Raises UsageError once patience is at its end.

    `waiting` is told once if somebody does.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    until = time.monotonic() + PATIENCE
    told = False
    try:
        while not _locked(descriptor):
            if not told:
                waiting(f"waiting for another `dflash train` in {folder}")
                told = True
            if time.monotonic() > until:
                raise UsageError(
                    f"another `dflash train` works in {folder}",
                    hint="the same command, once that one has ended; or another --output",
                )
            time.sleep(0.2)
        yield
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: there nobody can tell
        return True
    return True


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A name to write to; what is there becomes `path` when the block ends well, else it goes."""
    part = path.with_name(path.name + ".part")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield part
        with part.open("rb") as stream:
            os.fsync(stream.fileno())
    except BaseException:
        with suppress(OSError):
            part.unlink()  # a full disk needs the room, and nobody goes on with half a file
        raise
    part.replace(path)


def write_whole(path: Path, data: bytes) -> None:
    with whole(path) as part:
        part.write_bytes(data)


def read_lines(path: Path, kind: type[T]) -> list[T]:
    """What was written line by line. A last line that was cut off is no line.

    Raises UsageError for what is no such file.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    complete = data[: data.rfind(b"\n") + 1]
    try:
        return [msgspec.json.decode(line, type=kind) for line in complete.splitlines()]
    except ValueError as error:  # no JSON, no UTF-8, or not of this kind
        raise damaged(path, str(error)) from error


def damaged(path: Path, why: str) -> UsageError:
    """The error for a file of a run that somebody or something has written to."""
    return UsageError(
        f"{path} is damaged: {why}",
        hint=f"rm {shlex.quote(str(path))}; then the same command makes it again",
    )


def rewrite(path: Path, lines: list[T]) -> None:
    """The log with these lines alone."""
    write_whole(path, b"".join(msgspec.json.encode(line) + b"\n" for line in lines))


def append(stream: BinaryIO, line: object) -> None:
    stream.write(msgspec.json.encode(line) + b"\n")
    stream.flush()
