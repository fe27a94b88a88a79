"""The log of a detached server: written in turns of a few files, and read across them."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path

LARGEST = 10 << 20
"""Bytes of a file before the next one is begun."""
KEPT = 3
"""Files, the newest and older ones named `.1`, `.2`."""
CHUNK = 64 * 1024
PAUSE = 0.2
AGAIN = "starting it again"
"""The keeper's word between two lives of a server, which share a log."""


class Journal:
    """Writes to `path`; older parts move to `path.1` and on. No failure of the disk reaches it:

    what cannot be written is lost, and the next chunk is tried again. A file or folder that was
    removed meanwhile is made anew.
    """

    def __init__(self, path: Path, *, largest: int = LARGEST, kept: int = KEPT) -> None:
        self._path, self._largest, self._kept = path, largest, kept

    def write(self, chunk: bytes) -> int:
        with suppress(OSError):
            with suppress(FileNotFoundError):
                size = self._path.stat().st_size
                if size and size + len(chunk) > self._largest:
                    self.turn()
            # opened for each chunk: no file that was moved or removed is written to
            descriptor = opened(self._path)
            try:
                os.write(descriptor, chunk)
            finally:
                os.close(descriptor)
        return len(chunk)

    def flush(self) -> None:
        """Nothing is held back."""

    def turn(self) -> None:
        """Begin a new file."""
        for number in range(self._kept - 1, 0, -1):
            with suppress(OSError):
                part(self._path, number - 1).replace(part(self._path, number))


def opened(path: Path) -> int:
    """A descriptor that adds to the log; its folder is made if it is not there."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def part(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}") if number else path


def last_lines(path: Path, size: int = CHUNK) -> list[str]:
    """The end of the newest part."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - size))
            return file.read().decode("utf-8", "replace").replace("\r", "\n").splitlines()
    except OSError:
        return []


def of_this_life(lines: list[str]) -> list[str]:
    """Those since the server was last started again."""
    last = next((at for at in range(len(lines), 0, -1) if AGAIN in lines[at - 1]), 0)
    return lines[last:]


class Reader:
    """Reads on at the end of a log, from one part to the next."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: io.FileIO | None = None

    def read(self) -> bytes:
        """What was written since; empty: nothing yet."""
        if self._file is None:
            self._open()
        if self._file is None:
            return b""
        if chunk := self._file.read(CHUNK):
            return chunk
        if self._moved():
            # what came between the look and the move is in the old part
            rest = self._file.read(CHUNK)
            if not rest:
                self.close()
                self._open()
                rest = self._file.read(CHUNK) if self._file else b""
            return rest or b""
        return b""

    def close(self) -> None:
        if self._file:
            self._file.close()
        self._file = None

    def _open(self) -> None:
        with suppress(OSError):
            self._file = io.FileIO(self._path, "rb")

    def _moved(self) -> bool:
        if self._file is None:
            return False
        try:
            return not os.path.samestat(os.fstat(self._file.fileno()), self._path.stat())
        except OSError:
            return False


def follow(
    path: Path, goes_on: Callable[[], bool], *, last: int | None = None, pause: float = PAUSE
) -> Iterator[bytes]:
    """The log, then what is added to it, until the server is gone and all was read.

    `last`: of what is there at first, only so many lines.
    """
    reader = Reader(path)
    before = chain(_older(path), iter(reader.read, b""))
    yield from before if last is None else last_of(before, last)
    while True:
        running = goes_on()
        read = False
        while chunk := reader.read():
            read = True
            yield chunk
        if not running and not read:
            return
        time.sleep(pause if running else 0)


def _older(path: Path) -> Iterator[bytes]:
    for number in range(KEPT - 1, 0, -1):
        with suppress(OSError), part(path, number).open("rb") as file:
            while chunk := file.read(CHUNK):
                yield chunk


def last_of(chunks: Iterable[bytes], count: int) -> list[bytes]:
    """The last lines of a text that comes in pieces."""
    lines: list[bytes] = []
    for chunk in chunks:
        open_line = lines.pop() if lines and not lines[-1].endswith(b"\n") else b""
        lines += (open_line + chunk).splitlines(keepends=True)
        # one more than asked for: the last may be cut, and go on in the next piece
        del lines[: max(0, len(lines) - count - 1)]
    return lines[max(0, len(lines) - count) :]
