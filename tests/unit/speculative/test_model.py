import pytest
import torch

from tests.unit.speculative.tiny import draft_json, draft_model

VARIANTS = {
    "dflash": {},
    "dflash 2": {"second": True},
    "sliding": {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 5},
    "causal": {"is_causal": True},
}


@pytest.fixture(params=VARIANTS)
def draft(request):
    return draft_model(draft_json(**VARIANTS[request.param]))


@torch.inference_mode()
def test_context_added_bit_by_bit_is_the_context_added_at_once(draft):
    torch.manual_seed(0)
    features, block = torch.randn(13, 64), torch.randn(4, 32)
    whole = draft.open(20)
    draft.add_context(whole, features)
    whole.length = 13
    parts = draft.open(20)
    for start, stop, committed in ((0, 6, 6), (6, 10, 2), (8, 12, 4), (12, 13, 1)):
        draft.add_context(parts, features[start:stop])
        parts.length += committed
        # a block leaves scratch behind the committed rows, which the next context replaces
        draft(block, parts)
    torch.testing.assert_close(draft(block, parts), draft(block, whole), rtol=1e-4, atol=1e-4)


@torch.inference_mode()
def test_prepared_for_speed_it_says_nearly_the_same(draft):
    torch.manual_seed(0)
    features, block = torch.randn(9, 64), torch.randn(4, 32)
    cache = draft.open(16)

    def run():
        cache.length = 0
        draft.add_context(cache, features)
        cache.length = 9
        return draft(block, cache), cache.keys[:, :, :9].clone()

    hidden, keys = run()
    draft.prepare((4,))
    near, same = run()
    torch.testing.assert_close(same, keys)
    assert torch.cosine_similarity(near.flatten(), hidden.flatten(), dim=0) > 0.97
    # rounded indeed: exact products would have agreed to the last few bits
    assert (near - hidden).abs().max() > 1e-4


@torch.inference_mode()
def test_causality_decides_what_a_row_sees():
    for causal in (False, True):
        draft = draft_model(draft_json(is_causal=causal))
        cache = draft.open(8)
        block = torch.randn(4, 32)
        before = draft(block, cache)
        block[3] += 1
        assert torch.equal(draft(block, cache)[0], before[0]) == causal
