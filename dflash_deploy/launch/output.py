"""The engine's output on its way to the terminal: passed on at once, its last lines kept."""

from __future__ import annotations

import os
import re
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

KEPT_LINES = 400
"""Two tracebacks of vLLM: the cause stands in the first, and the last names none."""
LONGEST_LINE = 64 * 1024
HIDDEN = b"***"
_LINE_END = re.compile(rb"[\r\n]+")


class Sink(Protocol):
    """Where an engine's output goes: a terminal, a log."""

    def write(self, data: bytes, /) -> object: ...

    def flush(self) -> object: ...


class Redactor:
    """Replaces secrets in a stream of chunks, also where one is split between two chunks."""

    def __init__(self, secrets: Sequence[bytes]) -> None:
        self._secrets = [secret for secret in secrets if secret]
        self._held = b""

    def feed(self, chunk: bytes) -> bytes:
        if not self._secrets:
            return chunk
        data = self._held + chunk
        for secret in self._secrets:
            data = data.replace(secret, HIDDEN)
        keep = max(_overlap(data, secret) for secret in self._secrets)
        self._held = data[len(data) - keep :]
        return data[: len(data) - keep]

    def end(self) -> bytes:
        held, self._held = self._held, b""
        return held


def _overlap(data: bytes, secret: bytes) -> int:
    """How many bytes at the end of `data` may be the beginning of `secret`."""
    for size in range(min(len(secret) - 1, len(data)), 0, -1):
        if secret.startswith(data[-size:]):
            return size
    return 0


class Tail:
    """The last lines of a stream; a progress bar drawn over itself counts as one line."""

    def __init__(self, on_line: Callable[[str], None] | None = None) -> None:
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._open = b""
        self._on_line = on_line

    def feed(self, chunk: bytes) -> None:
        *whole, self._open = _LINE_END.split(self._open + chunk)
        for line in whole:
            self._keep(line)
        self._open = self._open[-LONGEST_LINE:]

    def end(self) -> None:
        self._keep(self._open)
        self._open = b""

    def _keep(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").rstrip()
        if text:
            self._lines.append(text)
            if self._on_line:
                self._on_line(text)

    @property
    def lines(self) -> tuple[str, ...]:
        # deque.append is atomic, iterating while another thread appends is not
        return tuple(self._lines.copy())


def pump(source: int, target: Sink | None, tail: Tail, secrets: Sequence[bytes]) -> None:
    """Copy until every writer of `source` is gone. A target that fails is given up, not the copy:

    an engine whose output nobody reads would stop at the first full pipe.
    """
    redactor = Redactor(secrets)
    out: Sink | None = target
    with os.fdopen(source, "rb", buffering=0) as stream:
        while chunk := stream.read(LONGEST_LINE):
            out = pass_on(redactor.feed(chunk), out, tail)
    pass_on(redactor.end(), out, tail)
    tail.end()


def pass_on(data: bytes, out: Sink | None, tail: Tail) -> Sink | None:
    """To the tail and the sink; None: the sink failed, and gets no more."""
    tail.feed(data)
    if out is None or not data:
        return out
    try:
        out.write(data)
        out.flush()
    except (OSError, ValueError):
        return None
    return out


def start_pump(
    source: int, target: Sink | None, tail: Tail, secrets: Sequence[bytes]
) -> threading.Thread:
    thread = threading.Thread(
        target=pump, args=(source, target, tail, secrets), name="engine-output", daemon=True
    )
    thread.start()
    return thread
