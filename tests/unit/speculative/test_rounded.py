import torch

from dflash_deploy.speculative.rounded import RoundedProduct, can_round


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
