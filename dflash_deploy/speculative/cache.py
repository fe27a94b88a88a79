"""Keys and values of one sequence, allocated once, and the masks that go with them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class LayerView(NamedTuple):
    """Parts of one layer's cache: rows [rows, kv_heads, head_dim] to be written over.

    And what is attended to, [1, kv_heads, seen, head_dim], those rows among it.
    """

    new_keys: Tensor
    new_values: Tensor
    keys: Tensor
    values: Tensor


class KVCache:
    """All layers' keys and values, each [layers, kv_heads, capacity, head_dim].

    `length` counts the committed positions. Rows behind it are scratch: a block is written there,
    read by its own attention, and either committed by moving `length` or overwritten.
    """

    def __init__(
        self,
        shape: tuple[int, int, int, int],
        *,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        # zeros: a mask hides scratch rows, but not a NaN that happens to lie there
        self.keys = torch.zeros(shape, dtype=dtype, device=device)
        self.values = torch.zeros(shape, dtype=dtype, device=device)
        self.length = 0

    @property
    def capacity(self) -> int:
        return self.keys.shape[2]

    def views(self, rows: slice, seen: int) -> list[LayerView]:
        """Each layer's `rows` to be written, and its first `seen` positions: cut once a pass."""
        new = [whole[:, :, rows].transpose(1, 2).unbind() for whole in (self.keys, self.values)]
        old = [whole[:, None, :, :seen].unbind() for whole in (self.keys, self.values)]
        return [LayerView(*tensors) for tensors in zip(*new, *old, strict=True)]


class Band:
    """An additive mask for a block of rows behind any number of earlier positions.

    Row r may see a key that lies d = key - row positions away if d <= 0 (causal) and d > -window
    (sliding). This depends on the distance alone, so one tensor holds every step's mask as a slice:
    its column c stands for position c - reach relative to the block's start. It is built anew,
    twice as long, when a block starts further on than it reaches.
    """

    def __init__(
        self,
        rows: int,
        groups: int,
        *,
        causal: bool,
        window: int | None,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self._rows, self._groups = rows, groups
        self._causal, self._window = causal, window
        self._reach = 0
        self._mask = torch.zeros(0, dtype=dtype, device=device)

    def at(self, start: int) -> Tensor:
        """The mask [groups * rows, keys] of a block that starts at position `start`."""
        if start > self._reach or not len(self._mask):
            self._reach = max(start, 2 * self._reach)
            self._mask = self._build()
        first = self._reach - start
        mask = self._mask[:, first : first + start + self._rows]
        # attention kernels of a GPU read the mask in whole words
        return mask.contiguous() if mask.is_cuda else mask

    def _build(self) -> Tensor:
        device = self._mask.device
        columns = torch.arange(-self._reach, self._rows, device=device)
        distance = columns[None, :] - torch.arange(self._rows, device=device)[:, None]
        hidden = torch.zeros_like(distance, dtype=torch.bool)
        if self._causal:
            hidden |= distance > 0
        if self._window is not None:
            hidden |= distance <= -self._window
        mask = torch.zeros(hidden.shape, dtype=self._mask.dtype, device=device)
        # the query heads of one key head are stacked as further rows
        return mask.masked_fill_(hidden, float("-inf")).repeat(self._groups, 1)


def rounded_up(count: int, stride: int) -> int:
    """The next multiple of `stride`."""
    return -(-count // stride) * stride
