import torch
from torch.nn import functional

from dflash_deploy.speculative.linear import Linear, can_pack, packs_once


def test_packed_and_plain_products_agree():
    torch.manual_seed(0)
    weight, bias = torch.randn(48, 32), torch.randn(48)
    linear = Linear(weight, bias)
    linear.pack(8)
    for rows in (1, 3, 8, 20):
        x = torch.randn(rows, 32)
        torch.testing.assert_close(linear(x), functional.linear(x, weight, bias))


def test_several_widths_are_packed_side_by_side():
    linear = Linear(torch.randn(48, 32))
    if can_pack(linear.weight):
        linear.pack(4)
        linear.pack(8)
        assert linear.packed
        assert linear.packed_rows == (set() if packs_once() else {4, 8})


def test_where_one_copy_serves_all_a_row_is_the_same_at_every_width():
    torch.manual_seed(0)
    for out, into in ((576, 576), (96, 1536)):
        linear, x = Linear(torch.randn(out, into), torch.randn(out)), torch.randn(64, into)
        linear.pack(1)
        assert linear.packed == (packs_once() and can_pack(linear.weight))
        whole = linear(x)
        torch.testing.assert_close(
            whole, functional.linear(x, linear.weight, linear.bias), atol=1e-3, rtol=1e-4
        )
        for width in (1, 2, 3, 4, 7, 8, 13, 48) if linear.packed else ():
            assert torch.equal(linear(x[:width]), whole[:width]), width


def test_a_rounded_layer_is_near_and_forgets_it_when_moved():
    torch.manual_seed(0)
    linear, x = Linear(torch.randn(48, 32), torch.randn(48)), torch.randn(8, 32)
    exact = linear(x)
    linear.round()
    near = linear(x)
    assert 0 < (near - exact).abs().max() < 0.05 * exact.abs().max()
    torch.testing.assert_close(linear.double()(x.double()), exact.double(), rtol=1e-4, atol=1e-4)


def test_moving_the_weight_drops_the_packed_copy():
    linear = Linear(torch.randn(48, 32))
    linear.pack(8)
    linear.to(torch.bfloat16)
    x = torch.randn(8, 32, dtype=torch.bfloat16)
    torch.testing.assert_close(linear(x), functional.linear(x, linear.weight))
    assert not linear.packed


def test_one_row_and_other_dtypes_are_not_packed():
    linear = Linear(torch.randn(48, 32))
    linear.pack(1)
    assert not linear.packed_rows
    assert not can_pack(torch.ones(2, 2, dtype=torch.bfloat16))
