"""The one thread that torch runs in, from loading to the last token."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class Worker:
    """Runs what it is given, in order, in a thread of its own.

    Loading belongs here too: each thread that calls torch gets OpenMP threads of its own, and once
    there are more of them than cores, libgomp puts them to sleep between any two operations, which
    nearly halves the speed of small ones.
    """

    def __init__(self) -> None:
        self._work: SimpleQueue[Callable[[], None]] = SimpleQueue()
        # A daemon, so that Ctrl-C need not wait for the end of a download or a cycle.
        threading.Thread(target=self._run, name="torch", daemon=True).start()

    def submit(self, work: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()
        self._work.put(lambda: _settle(future, work))
        return future

    def _run(self) -> None:
        while True:
            self._work.get()()


def _settle(future: Future[Any], work: Callable[[], Any]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:  # noqa: BLE001 - it is the caller's, who waits for the result
        future.set_exception(error)
