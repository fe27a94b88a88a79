"""A step recorded once for each shape of its data, and replayed.

On a GPU, launching the thousands of small kernels of a step takes longer than running them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from dflash_deploy.speculative.recorded import Recorder, Replay
from dflash_deploy.train.blocks import Batch

log = logging.getLogger(__name__)
Work = Callable[[Batch], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class _Recorded:
    """`replay` reads `data` and writes `outputs`, in place."""

    replay: Replay
    data: Batch
    outputs: tuple[Tensor, Tensor]


class Graphed:
    """`work` on a device's data. It must not wait, and keep its results in fixed tensors.

    Where nothing is recorded the same is run as it is.
    """

    def __init__(self, work: Work, device: torch.device) -> None:
        self._work = work
        self._recorder = Recorder(device, ())
        self._recorded: dict[tuple[int, ...], _Recorded] = {}
        self._by_hand = False

    def __call__(self, one: Batch) -> tuple[Tensor, Tensor]:
        if self._by_hand:
            return self._work(one)
        shape = (*one.ids.shape, one.anchors.shape[1])
        if shape not in self._recorded:
            try:
                self._recorded[shape] = self._record(one)
            except RuntimeError as error:  # a model whose code waits for the GPU
                if one.ids.device.type != "cuda":
                    raise
                log.warning("each step is launched kernel by kernel: %s", str(error)[:200])
                self._by_hand = True
                return self._work(one)
        found = self._recorded[shape]
        found.data.take(one)
        found.replay()
        return found.outputs

    def _record(self, one: Batch) -> _Recorded:
        data = one.copy()
        outputs = (torch.zeros((), device=one.ids.device), torch.zeros((), device=one.ids.device))

        def step() -> None:
            for kept, made in zip(outputs, self._work(data), strict=True):
                kept.copy_(made)

        return _Recorded(self._recorder.record(step), data, outputs)
