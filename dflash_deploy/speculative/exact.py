"""Attention whose rows come out the same, bit for bit, alone and in a block of any width.

A kernel takes its sums in an order that it chooses by the number of queries and of keys. So a row
is never looked at with more keys than it would be alone, and never among so few rows that the
choice is another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from dflash_deploy.speculative.cache import KVCache, LayerView, rounded_up
from dflash_deploy.speculative.layers import Heads, attended

KEYS = 64
"""Keys are counted in these steps, those behind a row hidden: one mask and shape for many rows."""
ROWS = 4
"""Rows are counted in these steps: 3 queries are summed otherwise than 6 or 24 (AVX2, measured)."""


@dataclass(frozen=True)
class Piece:
    """Rows of a pass that have the same number of keys."""

    rows: slice
    view: list[LayerView]
    mask: Tensor
    """[rows, keys], the rows filled up to a multiple of `ROWS`."""


@dataclass(frozen=True)
class ExactPlace:
    """A `layers.Place`: the rows of one sequence behind its first `start` positions."""

    angles: Tensor
    cache: KVCache
    start: int

    @cached_property
    def _pieces(self) -> list[Piece]:
        return list(self._cut(self.start, self.start + self.angles.shape[0]))

    def _cut(self, begin: int, stop: int) -> Iterator[Piece]:
        while begin < stop:
            keys = rounded_up(begin + 1, KEYS)
            end = min(stop, keys)
            filled = torch.arange(begin, begin + rounded_up(end - begin, ROWS))
            hidden = torch.arange(keys) > filled[:, None]
            mask = torch.zeros(hidden.shape).masked_fill_(hidden, float("-inf"))
            view = self.cache.views(slice(begin, end), keys)
            yield Piece(slice(begin - self.start, end - self.start), view, mask)
            begin = end

    def attend(self, layer: int, heads: Heads, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        for piece in self._pieces:
            piece.view[layer].new_keys.copy_(key[piece.rows])
            piece.view[layer].new_values.copy_(value[piece.rows])
        return torch.cat([self._of(piece, layer, heads, query) for piece in self._pieces])

    @staticmethod
    def _of(piece: Piece, layer: int, heads: Heads, query: Tensor) -> Tensor:
        rows = query[piece.rows]
        filling = rows.new_zeros(len(piece.mask) - len(rows), *rows.shape[1:])
        mixed = attended(
            torch.cat((rows, filling)), piece.view[layer], heads, piece.mask.repeat(heads.groups, 1)
        )
        return mixed[: len(rows)]
