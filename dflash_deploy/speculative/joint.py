"""Several sequences' rows in one pass: products over all rows, attention of each by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from dflash_deploy.speculative.cache import KVCache
from dflash_deploy.speculative.layers import CachePlace, Heads, Place
from dflash_deploy.speculative.model import DraftModel

MOST_ROWS = 48
"""Rows of a pass: MKL sums a product of 64 rows and 1536 columns otherwise than one of 48."""


@dataclass(frozen=True)
class JointPlace:
    """A `layers.Place` made of the sequences' own; rows behind theirs are padding."""

    angles: Tensor
    places: tuple[Place, ...]
    counts: tuple[int, ...]

    @classmethod
    def of(cls, places: Sequence[Place], counts: Sequence[int], rows: int) -> Self:
        angles = [place.angles for place in places]
        padding = angles[0].new_ones(rows - sum(counts), *angles[0].shape[1:])
        return cls(torch.cat((*angles, padding)), tuple(places), tuple(counts))

    def attend(self, layer: int, heads: Heads, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        mixed = query.new_zeros(query.shape[0], heads.query * heads.dim)
        begin = 0
        for place, count in zip(self.places, self.counts, strict=True):
            part = slice(begin, begin + count)
            mixed[part] = place.attend(layer, heads, query[part], key[part], value[part])
            begin += count
        return mixed


def drafted(draft: DraftModel, embedded: Tensor, states: Sequence[KVCache]) -> Tensor:
    """`DraftModel.forward` for blocks of equal width, those of one sequence after another's."""
    rows = len(embedded) // len(states)
    angles = [draft.rope.angles(s.length, s.length + rows, draft.device) for s in states]
    x = embedded
    for index, layer in enumerate(draft.layers):
        places = [
            CachePlace(turn, state, state.length, draft.mask(index, rows, state))
            for turn, state in zip(angles, states, strict=True)
        ]
        x = layer(x, JointPlace.of(places, [rows] * len(states), len(embedded)))
    hidden: Tensor = draft.norm(x)
    return hidden


def padded_rows(rows: int, packed: Sequence[int]) -> int:
    """How many rows to compute for `rows`, so that each comes out as it does among any others.

    MKL sums alike for the widths that weights are packed for and, unpacked, for multiples of 4 from
    16 on: measured on AVX-512, where 10 or 12 rows, a pair and a single row differ in the last bit.
    Without packed weights there is nothing to be equal to, and oneDNN's one copy sums all alike.
    """
    if not packed or rows == 1:
        return rows
    for width in packed:
        if rows <= width:
            return width
    return max(16, -(-rows // 4) * 4)


def passes(counts: Sequence[int]) -> list[range]:
    """Cut blocks of these numbers of rows into passes of at most `MOST_ROWS`."""
    cut, begin, rows = [], 0, 0
    for index, count in enumerate(counts):
        if rows and rows + count > MOST_ROWS:
            cut.append(range(begin, index))
            begin, rows = index, 0
        rows += count
    return [*cut, range(begin, len(counts))]
