"""Rows of an attention that is the same, bit for bit, alone and in a block."""

from __future__ import annotations

import pytest
import torch

from dflash_deploy.speculative.cache import Band, KVCache
from dflash_deploy.speculative.exact import KEYS, ExactPlace
from dflash_deploy.speculative.layers import CachePlace, Heads

CPU = torch.device("cpu")
SHAPES = [Heads(9, 3, 64), Heads(14, 2, 64), Heads(4, 4, 64), Heads(8, 4, 128), Heads(15, 5, 80)]
STARTS = (0, 5, 57, 60, 127, 250, 507, 700)
ROWS = 16


def cache_of(heads, chance):
    cache = KVCache((1, heads.key, 12 * KEYS, heads.dim), dtype=torch.float32, device=CPU)
    cache.keys.normal_(generator=chance)
    cache.values.normal_(generator=chance)
    return cache


def drawn(heads, chance):
    """Queries, keys and values of `ROWS` rows."""
    counts = (heads.query, heads.key, heads.key)
    return [torch.randn(ROWS, count, heads.dim, generator=chance) for count in counts]


def looked(place, heads, tensors, rows):
    return place.attend(0, heads, *(tensor[rows] for tensor in tensors))


def turns(rows):
    return torch.empty(rows, 1, 1)


@pytest.mark.parametrize("heads", SHAPES, ids=lambda h: f"{h.query}-{h.key}-{h.dim}")
def test_a_row_is_the_same_in_every_block(heads):
    chance = torch.Generator().manual_seed(0)
    for start in STARTS:
        cache, tensors = cache_of(heads, chance), drawn(heads, chance)
        alone = torch.cat([
            looked(ExactPlace(turns(1), cache, start + row), heads, tensors, slice(row, row + 1))
            for row in range(ROWS)
        ])  # fmt: skip
        for count in (2, 3, 4, 5, 8, ROWS):
            found = looked(ExactPlace(turns(count), cache, start), heads, tensors, slice(0, count))
            assert torch.equal(found, alone[:count]), (start, count)


@pytest.mark.parametrize("start", STARTS)
def test_it_is_attention(start):
    heads, chance = SHAPES[0], torch.Generator().manual_seed(1)
    cache, tensors = cache_of(heads, chance), drawn(heads, chance)
    band = Band(ROWS, heads.groups, causal=True, window=None, dtype=torch.float32, device=CPU)
    usual = CachePlace(turns(ROWS), cache, start, band.at(start))
    wanted = looked(usual, heads, tensors, slice(0, ROWS))
    found = looked(ExactPlace(turns(ROWS), cache, start), heads, tensors, slice(0, ROWS))
    torch.testing.assert_close(found, wanted)


def test_rows_that_more_keys_stand_before_are_a_piece_of_their_own():
    heads = SHAPES[0]
    cache = cache_of(heads, torch.Generator().manual_seed(2))
    place = ExactPlace(turns(10), cache, KEYS - 3)
    masks = [piece.mask.shape for piece in place._pieces]
    assert [piece.rows for piece in place._pieces] == [slice(0, 3), slice(3, 10)]
    assert masks == [(4, KEYS), (8, 2 * KEYS)]
