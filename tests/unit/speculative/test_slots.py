import pytest
import torch

from dflash_deploy.speculative.cache import KVCache
from dflash_deploy.speculative.layers import CachePlace, Heads
from dflash_deploy.speculative.slots import SlotCache, SlotPlace, Span, reach_of

CPU = torch.device("cpu")
HEADS = Heads(query=4, key=2, dim=8)
LENGTHS = (0, 5, 13)
WIDTH = 3


def test_the_shortest_reach_that_holds_the_rows():
    assert [reach_of(stop, 5000) for stop in (1, 256, 257, 2000, 4097)] == [
        256, 256, 512, 2048, 5000,
    ]  # fmt: skip


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [None, 1, 4])
def test_a_mask_of_lengths_says_what_each_row_may_see(causal, window):
    span = Span(0, torch.tensor(LENGTHS), WIDTH, reach=32)
    mask = span.mask(HEADS.groups, causal=causal, window=window, dtype=torch.float32)
    assert mask.shape == (len(LENGTHS), 1, HEADS.groups * WIDTH, 32)
    for slot, length in enumerate(LENGTHS):
        for row in range(HEADS.groups * WIDTH):
            position = length + row % WIDTH
            for key in range(32):
                seen = key <= position if causal else key < length + WIDTH
                seen &= window is None or key > position - window
                assert (mask[slot, 0, row, key] == 0) == seen


def test_slots_attend_as_sequences_alone_do():
    """Also behind a neighbour, and with other numbers in the scratch rows."""
    torch.manual_seed(0)
    slots = SlotCache(2, 4, 40, HEADS, dtype=torch.float32, device=CPU)
    alone = []
    for slot, length in enumerate(LENGTHS, start=1):
        cache = KVCache((2, HEADS.key, 40, HEADS.dim), dtype=torch.float32, device=CPU)
        cache.keys.normal_()
        cache.values.normal_()
        cache.length = length
        slots.fill(slot, cache)
        alone.append(cache)
    rows = len(LENGTHS) * WIDTH
    query = torch.randn(rows, HEADS.query, HEADS.dim)
    key, value = torch.randn(2, rows, HEADS.key, HEADS.dim)
    span = Span(1, torch.tensor(LENGTHS), WIDTH, reach=32)
    mask = span.mask(HEADS.groups, causal=True, window=None, dtype=torch.float32)
    angles = torch.empty(WIDTH, 1, 0)
    place = SlotPlace(angles, slots, span, span.stored(40), mask)
    together = place.attend(1, HEADS, query, key, value).split(WIDTH)
    for index, (cache, length) in enumerate(zip(alone, LENGTHS, strict=True)):
        part = slice(index * WIDTH, (index + 1) * WIDTH)
        seen = mask[index, 0, :, : length + WIDTH]
        own = CachePlace(angles, cache, length, seen)
        wanted = own.attend(1, HEADS, query[part], key[part], value[part])
        torch.testing.assert_close(together[index], wanted)
        stored = slots.keys[1, index + 1, length : length + WIDTH]
        assert stored.equal(key[part])
    assert not slots.keys[:, 0].any()
