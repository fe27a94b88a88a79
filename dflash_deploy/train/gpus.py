"""Continuations on every device there is: windows of rows, cut into batches that fit."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from queue import SimpleQueue
from typing import Any

import torch

from dflash_deploy.train.batched import Continued, continued, room_for

ROWS = 4096
"""Of a batch at most."""
WINDOW = 2 * ROWS
"""Rows that are sorted by length together, for each device."""
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
        self, rows: Sequence[Continued], ends: frozenset[int], seed: int
    ) -> list[list[int]]:
        """The tokens behind each row, in the order of the rows."""
        parts = list(_batches(rows, self._models[0], self._free()))
        found: list[list[int]] = [[] for _ in rows]

        def one(number: int) -> None:
            model = self._idle.get()
            try:
                part = parts[number]
                with current(model.device):
                    said = continued(model, [rows[i] for i in part], ends, seed + number)
                for index, tokens in zip(part, said, strict=True):
                    found[index] = tokens
            finally:
                self._idle.put(model)

        with ThreadPoolExecutor(len(self._models)) as pool:
            list(pool.map(one, range(len(parts))))
        return found

    def _free(self) -> int:
        if self._models[0].device.type != "cuda":
            return CPU_MEMORY
        torch.cuda.empty_cache()
        return min(torch.cuda.mem_get_info(model.device)[0] for model in self._models)


def _batches(rows: Sequence[Continued], model: Any, free: int) -> Iterator[list[int]]:
    """Indices of rows, the longest first: what does not fit fails at once."""
    left = sorted(range(len(rows)), key=lambda index: rows[index].places, reverse=True)
    while left:
        size = min(ROWS, room_for(model, rows[left[0]].places, free))
        yield left[:size]
        left = left[size:]


def current(device: torch.device) -> AbstractContextManager[object]:
    """A thread's graphs are recorded on its current GPU."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()
