"""CUDA graphs: the launches of a step, recorded once and then repeated by one call."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Replay = Callable[[], None]

WARM_UP = 2
"""Runs before the recording, in which libraries choose kernels and take their workspaces."""


def can_record(device: torch.device) -> bool:
    """Whether recorded cycles are worth their padding: where a launch costs more than its rows."""
    return device.type == "cuda"


class Recorder:
    """Makes steps repeatable: graphs on a GPU, elsewhere the steps as they are.

    `state` is what steps change and do not set anew; it is put back before recording.
    """

    def __init__(self, device: torch.device, state: tuple[Tensor, ...]) -> None:
        self._device, self._state = device, state
        # one pool for all: they are repeated one after another, and keep nothing in it
        gpu = device.type == "cuda"
        self._pool = torch.cuda.graph_pool_handle() if gpu else None
        # and one stream, of this device: what a pool has free on one stream is of no use to another
        self._stream = torch.cuda.Stream(device) if gpu else None

    def record(self, step: Replay) -> Replay:
        """What does the same as `step()`. Changes nothing in `state`."""
        if self._device.type != "cuda":
            return step
        before = [tensor.clone() for tensor in self._state]
        stream = self._stream
        assert stream is not None  # noqa: S101 - there is one on every GPU
        stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                step()
                self._restore(before)  # after each: a second one further on might leave its slot
        torch.cuda.current_stream(self._device).wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, stream=stream):
            step()
        replay: Replay = graph.replay
        return replay

    def _restore(self, before: list[Tensor]) -> None:
        for tensor, value in zip(self._state, before, strict=True):
            tensor.copy_(value)
