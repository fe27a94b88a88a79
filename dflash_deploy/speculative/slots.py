"""Keys and values of several sequences at fixed addresses, and where a cycle's rows stand in them.

Lengths are tensors on the device: one recorded pass serves every length. Attention runs over the
first `reach` positions, whatever a sequence's length; a mask made of the lengths hides the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from dflash_deploy.speculative.cache import KVCache
from dflash_deploy.speculative.layers import Heads

SHORTEST_REACH = 256


class SlotCache:
    """All layers' keys and values, each [layers, slots, capacity, kv_heads, head_dim].

    A sequence has one slot. As in `KVCache`, what lies behind its length is scratch; it starts as
    zeros, because attention multiplies also what is hidden, and what is not a number stays so.
    """

    def __init__(
        self,
        layers: int,
        slots: int,
        capacity: int,
        heads: Heads,
        *,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        shape = (layers, slots, capacity, heads.key, heads.dim)
        self.heads = heads
        self.capacity = capacity
        self.keys = torch.zeros(shape, dtype=dtype, device=device)
        self.values = torch.zeros(shape, dtype=dtype, device=device)

    def fill(self, slot: int, cache: KVCache) -> None:
        """Take over the committed positions of a sequence that was begun elsewhere."""
        stop = cache.length
        self.keys[:, slot, :stop].copy_(cache.keys[:, :, :stop].transpose(1, 2))
        self.values[:, slot, :stop].copy_(cache.values[:, :, :stop].transpose(1, 2))


@dataclass(frozen=True)
class Span:
    """The rows [slots, width] of one cycle: behind `lengths` [slots], in the slots from `first`."""

    first: int
    lengths: Tensor
    width: int
    reach: int

    @property
    def count(self) -> int:
        return self.lengths.shape[0]

    @property
    def positions(self) -> Tensor:
        """[slots, width]."""
        steps = torch.arange(self.width, device=self.lengths.device)
        return self.lengths[:, None] + steps

    def stored(self, capacity: int) -> Tensor:
        """Where the rows lie, [slots * width], in a cache whose slots and positions are one."""
        slots = torch.arange(self.first, self.first + self.count, device=self.lengths.device)
        return (slots[:, None] * capacity + self.positions).flatten()

    def mask(self, groups: int, *, causal: bool, window: int | None, dtype: torch.dtype) -> Tensor:
        """Additive, [slots, 1, groups * width, reach]; see `cache.Band` for who sees what."""
        columns = torch.arange(self.reach, device=self.lengths.device)
        last = self.positions if causal else (self.lengths + (self.width - 1))[:, None]
        hidden = columns > last[..., None]
        if window is not None:
            hidden = hidden | (columns <= self.positions[..., None] - window)
        hidden = hidden.expand(-1, self.width, -1)
        mask = torch.zeros(hidden.shape, dtype=dtype, device=hidden.device)
        mask.masked_fill_(hidden, float("-inf"))
        return mask.repeat(1, groups, 1)[:, None]


@dataclass(frozen=True)
class SlotPlace:
    """A `layers.Place` for the rows of a span, those of one slot after those of another."""

    angles: Tensor
    cache: SlotCache
    span: Span
    stored: Tensor
    mask: Tensor

    def attend(self, layer: int, heads: Heads, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        count, width, reach = self.span.count, self.span.width, self.span.reach
        keys, values = self.cache.keys[layer], self.cache.values[layer]
        keys.flatten(0, 1).index_copy_(0, self.stored, key)
        values.flatten(0, 1).index_copy_(0, self.stored, value)
        slots = slice(self.span.first, self.span.first + count)
        # as in `CachePlace`: the query heads of one key head are stacked as further rows
        grouped = query.view(count, width, heads.key, heads.groups, heads.dim)
        mixed = functional.scaled_dot_product_attention(
            grouped.permute(0, 2, 3, 1, 4).reshape(count, heads.key, -1, heads.dim),
            keys[slots, :reach].transpose(1, 2),
            values[slots, :reach].transpose(1, 2),
            attn_mask=self.mask.expand(-1, heads.key, -1, -1),
        )
        back = mixed.view(count, heads.key, heads.groups, width, heads.dim)
        return back.permute(0, 3, 1, 2, 4).reshape(count * width, -1)


def reach_of(stop: int, capacity: int) -> int:
    """The shortest of 256, 512, 1024 and so on that holds `stop` positions, at most `capacity`."""
    reach = SHORTEST_REACH
    while reach < stop:
        reach *= 2
    return min(reach, capacity)
