import pytest
import torch

from dflash_deploy.speculative.rounded import RoundedProduct, RowProduct, can_round


@torch.inference_mode()
def test_logits_are_near_enough_to_find_the_best_token():
    torch.manual_seed(0)
    weight = torch.randn(500, 32)
    weight[7] = 0
    hidden = weight[torch.tensor([3, 250, 499])]
    assert can_round(weight)
    logits = RoundedProduct(weight)(hidden)
    assert logits.argmax(-1).tolist() == [3, 250, 499]
    exact = hidden @ weight.T
    assert (logits - exact).abs().max() < 0.02 * exact.abs().max()
    assert logits[:, 7].eq(0).all()


def test_other_dtypes_keep_the_exact_head():
    assert not can_round(torch.ones(4, 4, dtype=torch.bfloat16))


@pytest.fixture
def rows():
    """A linear layer, and eight rows of which each is ten times as large as the one before."""
    torch.manual_seed(0)
    return (
        torch.randn(70, 48),
        torch.randn(70),
        torch.randn(8, 48) * 10.0 ** torch.arange(8)[:, None],
    )


@pytest.mark.parametrize("biased", [False, True])
@torch.inference_mode()
def test_a_row_is_the_same_whatever_is_computed_beside_it(rows, biased):
    weight, bias, x = rows
    product = RowProduct(weight, bias if biased else None)
    whole = product(x)
    for width in (1, 2, 3, 4, 7):
        assert torch.equal(torch.cat([product(part) for part in x.split(width)]), whole)
    exact = x @ weight.T + (bias if biased else 0)
    assert ((whole - exact).norm(dim=1) < 0.02 * exact.norm(dim=1)).all()


@torch.inference_mode()
def test_a_row_of_zeros_gives_the_bias(rows):
    weight, bias, _ = rows
    assert torch.equal(RowProduct(weight, bias)(torch.zeros(2, 48)), bias.expand(2, 70))
