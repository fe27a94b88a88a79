"""A step recorded once for each shape of its data, and replayed.

On a GPU, launching the thousands of small kernels of a step takes longer than running them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dflash_deploy.train.blocks import Batch

log = logging.getLogger(__name__)
Work = Callable[[Batch], tuple[Tensor, Tensor]]
WARM_UP = 2
"""Runs before a recording: libraries choose their kernels then."""


@dataclass(frozen=True)
class _Recorded:
    graph: Any
    data: Batch
    outputs: tuple[Tensor, Tensor]


class Graphed:
    """`work` on a device's data. It must not wait, and keep its results in fixed tensors."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._recorded: dict[tuple[int, ...], _Recorded] = {}
        self._pool: Any = None
        self._by_hand = False

    def __call__(self, one: Batch) -> tuple[Tensor, Tensor]:
        if one.ids.device.type != "cuda" or self._by_hand:
            return self._work(one)
        shape = (*one.ids.shape, one.anchors.shape[1])
        if shape not in self._recorded:
            try:
                self._recorded[shape] = self._record(one)
            except RuntimeError as error:  # a model whose code waits for the GPU
                log.warning("each step is launched kernel by kernel: %s", str(error)[:200])
                self._by_hand = True
                return self._work(one)
        found = self._recorded[shape]
        found.data.take(one)
        found.graph.replay()
        return found.outputs

    def _record(self, one: Batch) -> _Recorded:
        data = one.copy()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UP):
                self._work(data)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        # recordings are never replayed at once, so they may share what they compute in
        with torch.cuda.graph(graph, pool=self._pool):
            outputs = self._work(data)
        self._pool = graph.pool()
        return _Recorded(graph, data, outputs)
