import pytest
import torch

from dflash_deploy.speculative import screen
from dflash_deploy.speculative.best import PART
from dflash_deploy.speculative.decoder import SpeculativeDecoder
from dflash_deploy.speculative.decoder_target import DecoderTarget
from dflash_deploy.speculative.rounded import COARSE, steps
from dflash_deploy.speculative.screen import Screen, can_screen
from dflash_deploy.speculative.types import Sampling
from tests.unit.speculative.tiny import draft_json, draft_model, generated, target_model, tokens

VOCABULARY = 10 * PART


def head(columns=48):
    torch.manual_seed(0)
    return torch.randn(VOCABULARY, columns)


@torch.inference_mode()
def test_the_best_token_is_that_of_all_logits_also_where_one_number_outweighs_the_rest():
    weight, x = head(), torch.randn(200, 48)
    x[::2, 5] *= 40
    x[3] = 0
    assert torch.equal(Screen(weight)(x), (x @ weight.T).argmax(-1))


@torch.inference_mode()
def test_what_8_bits_cannot_tell_apart_is_told_apart():
    weight = head()
    weight[700:720] = weight[700] + 0.01 * torch.randn(20, 48)
    x = weight[700] + 0.1 * torch.randn(50, 48)
    best = (x @ weight.T).argmax(-1)
    assert (x @ screen.rounded(weight).dequantize().T).argmax(-1).ne(best).any()
    assert torch.equal(Screen(torch.cat((weight, weight)))(x), best)  # of two the first


@torch.inference_mode()
@pytest.mark.parametrize("fineness", sorted({COARSE, steps()}))
def test_no_logit_is_higher_than_it_may_be(fineness):
    weight, x = head(), torch.randn(50, 48)
    x[::2, 5] *= 40
    x /= x.norm(dim=1, keepdim=True)
    probe = Screen(weight, fineness)
    room = probe._highest(x) - x @ weight.T
    assert (room > 0).all()
    assert (room < 2 * probe._margin).all()


@torch.inference_mode()
def test_a_row_is_screened_alike_among_any_others():
    probe, x = Screen(head()), torch.randn(16, 48)
    whole = probe._highest(x)
    for width in (1, 3, 8):
        assert torch.equal(torch.cat([probe._highest(part) for part in x.split(width)]), whole)


def test_where_too_many_may_be_the_best_it_says_so(monkeypatch):
    probe, x = Screen(head()), torch.randn(3, 48)
    assert probe(x) is not None
    monkeypatch.setattr(screen, "MOST", 2)
    assert probe(x) is None


def test_it_is_for_single_precision_and_whole_parts():
    assert not can_screen(torch.ones(PART, 4, dtype=torch.bfloat16))
    assert not can_screen(torch.ones(PART + 1, 4))


@pytest.mark.parametrize("speculate", [False, True])
def test_greedy_decoding_asks_the_screen_and_says_what_transformers_says(monkeypatch, speculate):
    model = target_model(vocab=VOCABULARY)
    wanted = generated(model, [1, 2, 3], 30)
    target = DecoderTarget(model)
    decoder = SpeculativeDecoder(target, draft_model(draft_json(vocab=VOCABULARY, block_size=8)))
    monkeypatch.setattr(target, "head", None)  # nobody asks for all logits
    steps = decoder.generate([1, 2, 3], Sampling(30), speculate=speculate)
    assert tokens(steps) == wanted
