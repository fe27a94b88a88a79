import pytest
import torch

from dflash_deploy.errors import Unsupported
from dflash_deploy.speculative.decoder import SpeculativeDecoder
from dflash_deploy.speculative.hub_target import HubTarget
from dflash_deploy.speculative.types import Sampling
from tests.unit.speculative.tiny import draft_json, draft_model, generated, target_model, tokens


@torch.inference_mode()
def test_rows_are_those_of_one_pass_also_after_a_crop():
    model, ids = target_model("gemma2", sliding_window=6), torch.arange(16)
    whole = model(input_ids=ids[None], output_hidden_states=True)
    session = HubTarget(model).open(20, (1, 3))
    session.forward(ids[:9], 1)
    session.forward(torch.tensor([30, 31, 32, 33]), 4)
    session.crop(9)
    rows = session.forward(ids[9:13], 4)
    torch.testing.assert_close(rows.logits, whole.logits[0, 9:13], rtol=1e-4, atol=1e-4)
    features = torch.cat([whole.hidden_states[layer][0, 9:13] for layer in (2, 4)], dim=-1)
    torch.testing.assert_close(rows.features, features, rtol=1e-4, atol=1e-4)
    assert session.length == 13


def test_any_family_decodes_to_what_transformers_generates():
    # few tokens in the vocabulary, so that a random draft is right now and then
    model = target_model("gemma2", vocab=5, sliding_window=6)
    decoder = SpeculativeDecoder(model, draft_model(draft_json(vocab=5)))
    for first in range(5):
        prompt = [first, 1, 2, (first * 3) % 5]
        steps = list(decoder.generate(prompt, Sampling(24)))
        assert tokens(steps) == generated(model, prompt, 24)


def test_a_recurrent_target_is_refused():
    model = target_model()
    model._is_stateful = True
    with pytest.raises(Unsupported, match="rolled back"):
        HubTarget(model)
