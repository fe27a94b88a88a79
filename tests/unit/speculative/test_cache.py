import pytest
import torch

from dflash_deploy.speculative.cache import Band, KVCache

CPU = torch.device("cpu")


def test_writing_allocates_nothing_and_leaves_length_alone():
    cache = KVCache((2, 1, 10, 4), dtype=torch.float32, device=CPU)
    where = cache.keys.data_ptr()
    rows = torch.ones(3, 1, 4)
    view = cache.views(slice(5, 8), 9)[1]
    view.new_keys.copy_(rows)
    view.new_values.copy_(2 * rows)
    assert cache.length == 0
    assert cache.capacity == 10
    assert cache.keys.data_ptr() == where
    assert cache.keys[1, 0, 5:8].eq(1).all()
    assert cache.values[1, 0, 5:8].eq(2).all()
    assert cache.keys.sum() == cache.values.sum() / 2 == 12
    assert torch.equal(view.keys, cache.keys[1:, :, :9])
    assert torch.equal(view.values, cache.values[1:, :, :9])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [None, 1, 3])
@pytest.mark.parametrize("start", [0, 2, 7])
def test_every_slice_is_the_mask_built_from_positions(causal, window, start):
    rows, groups = 4, 2
    band = Band(rows, groups, causal=causal, window=window, dtype=torch.float32, device=CPU)
    band.at(start // 2)  # grown, and then sliced
    mask = band.at(start)
    assert mask.shape == (groups * rows, start + rows)
    for row in range(groups * rows):
        position = start + row % rows
        for key in range(start + rows):
            seen = not (causal and key > position)
            seen &= window is None or key > position - window
            assert (mask[row, key] == 0) == seen


def test_scratch_rows_hold_numbers():
    cache = KVCache((2, 1, 10, 4), dtype=torch.float32, device=CPU)
    assert cache.keys.eq(0).all()
    assert cache.values.eq(0).all()
