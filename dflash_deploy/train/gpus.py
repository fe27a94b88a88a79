"""Continuations on every device there is: windows of rows, cut into batches that fit."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from queue import SimpleQueue
from threading import Lock
from typing import Any

import torch

from dflash_deploy.train.batched import Continued, continued, room_for
from dflash_deploy.train.events import Stopped

ROWS = 4096
"""Of a batch at most."""
WINDOW = 2 * ROWS
"""Rows that are sorted by length together, for each device."""
CPU_ROWS = 32
"""Of a batch on a CPU: more are hardly faster there, and each of its steps is waited for."""
CPU_MEMORY = 2 << 30
"""Bytes a batch may take where there is no GPU."""


def devices() -> list[torch.device]:
    """Every GPU there is, the first first."""
    return [torch.device("cuda", index) for index in range(torch.cuda.device_count())]


class Devices:
    """A model's copies, one a device, each busy with one batch at a time."""

    def __init__(self, model: Any) -> None:
        self._models = [model]
        if model.device.type == "cuda":
            self._models += [copy.deepcopy(model).to(device) for device in devices()[1:]]
        self._idle: SimpleQueue[Any] = SimpleQueue()
        for each in self._models:
            self._idle.put(each)

    @property
    def window(self) -> int:
        return WINDOW * len(self._models)

    def continued(
        self, rows: Sequence[Continued], ends: frozenset[int], seed: int,
        told: Callable[[int], None] = lambda _: None,
    ) -> list[list[int]]:  # fmt: skip
        """The tokens behind each row, in the order of the rows. `told`: about how many are done."""
        parts = list(_batches(rows, self._models[0], self._free()))
        found: list[list[int]] = [[] for _ in rows]
        shares = _Shares([len(part) for part in parts], told)

        def one(number: int) -> None:
            model = self._idle.get()
            try:
                part = parts[number]
                with current(model.device):
                    said = continued(
                        model, [rows[i] for i in part], ends, seed + number,
                        lambda share: shares.done(number, share),
                    )  # fmt: skip
                for index, tokens in zip(part, said, strict=True):
                    found[index] = tokens
            finally:
                self._idle.put(model)

        with ThreadPoolExecutor(len(self._models)) as pool:
            try:
                list(pool.map(one, range(len(parts))))
            except BaseException:
                shares.given_up = True  # the pool waits for its threads
                raise
        return found

    def _free(self) -> int:
        if self._models[0].device.type != "cuda":
            return CPU_MEMORY
        torch.cuda.empty_cache()
        return min(torch.cuda.mem_get_info(model.device)[0] for model in self._models)


class _Shares:
    """How far the batches are, each in a thread of its own."""

    def __init__(self, rows: Sequence[int], told: Callable[[int], None]) -> None:
        self._rows, self._told, self._lock = rows, told, Lock()
        self._shares = [0.0] * len(rows)
        self.given_up = False

    def done(self, number: int, share: float) -> None:
        """Raises Stopped if nobody waits for the batch any more."""
        if self.given_up:
            raise Stopped
        with self._lock:
            self._shares[number] = share
            pairs = zip(self._rows, self._shares, strict=True)
            self._told(int(sum(rows * each for rows, each in pairs)))


def _batches(rows: Sequence[Continued], model: Any, free: int) -> Iterator[list[int]]:
    """Indices of rows, the longest first: what does not fit fails at once."""
    left = sorted(range(len(rows)), key=lambda index: rows[index].places, reverse=True)
    most = ROWS if model.device.type == "cuda" else min(ROWS, CPU_ROWS)
    while left:
        size = min(most, room_for(model, rows[left[0]].places, free))
        yield left[:size]
        left = left[size:]


def current(device: torch.device) -> AbstractContextManager[object]:
    """A thread's graphs are recorded on its current GPU."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()
