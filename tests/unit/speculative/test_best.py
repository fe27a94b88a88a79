import pytest
import torch

from dflash_deploy.speculative.best import PART, best_tokens


@pytest.mark.parametrize("vocabulary", [7 * PART, 7 * PART + 1, PART, 5])
@pytest.mark.parametrize("rows", [1, 8])
def test_it_is_the_place_of_the_largest(rows, vocabulary):
    torch.manual_seed(0)
    logits = torch.randn(rows, vocabulary)
    logits[0, -1] = logits[-1, 0] = 9
    assert torch.equal(best_tokens(logits), logits.argmax(-1))


def test_of_equal_ones_it_is_the_first():
    logits = torch.zeros(2, 4 * PART)
    logits[0, [PART + 3, PART + 5, 3 * PART]] = 1
    assert best_tokens(logits).tolist() == [PART + 3, 0]
