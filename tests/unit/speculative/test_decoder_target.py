import pytest
import torch

from dflash_deploy.errors import Unsupported
from dflash_deploy.speculative import decoder_target
from dflash_deploy.speculative.decoder_target import DecoderTarget, fits
from dflash_deploy.speculative.linear import can_pack
from tests.unit.speculative.tiny import target_model

TAPS = (0, 2, 4)
VARIANTS = {
    "llama": ("llama", {}),
    "llama, tied, biased": (
        "llama",
        {"tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True},
    ),
    "llama, one key head": ("llama", {"num_key_value_heads": 1}),
    "qwen2": ("qwen2", {}),
    "qwen3": ("qwen3", {}),
}


@pytest.fixture(params=VARIANTS)
def model(request):
    family, settings = VARIANTS[request.param]
    return target_model(family, **settings)


def expected(model, ids):
    with torch.inference_mode():
        out = model(input_ids=ids[None], output_hidden_states=True)
    return out.logits[0], torch.cat([out.hidden_states[tap + 1][0] for tap in TAPS], dim=-1)


def close(found, wanted):
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


@torch.inference_mode()
def test_logits_and_features_are_those_of_transformers(model):
    ids = torch.arange(20) % 40
    logits, features = expected(model, ids)
    assert fits(model)
    target = DecoderTarget(model)
    target.prepare((4,))
    session = target.open(30, TAPS)
    # a prompt, a block, a single token, a block of another width: every kind of mask
    for start, stop in ((0, 11), (11, 15), (15, 16), (16, 18)):
        rows = session.forward(ids[start:stop], stop - start)
        close(rows.logits, logits[start:stop])
        close(rows.features, features[start:stop])
    assert session.length == 18


@torch.inference_mode()
def test_what_was_cropped_leaves_no_trace(model):
    ids = torch.arange(14) % 40
    session = DecoderTarget(model).open(20, TAPS)
    session.forward(ids[:8], 1)
    session.forward(torch.tensor([39, 38, 37, 36]), 4)
    session.crop(9)
    session.crop(8)
    rows = session.forward(ids[8:12], 4)
    close(rows.logits, expected(model, ids)[0][8:12])


@torch.inference_mode()
def test_a_long_prompt_goes_through_in_parts(model, monkeypatch):
    monkeypatch.setattr(decoder_target, "PREFILL_ROWS", 7)
    ids = torch.arange(20) % 40
    logits, features = expected(model, ids)
    rows = DecoderTarget(model).open(20, TAPS).forward(ids, 2)
    close(rows.logits, logits[-2:])
    close(rows.features, features)


@torch.inference_mode()
def test_sessions_do_not_share_a_cache(model):
    target, ids = DecoderTarget(model), torch.arange(10)
    one, two = target.open(12, ()), target.open(12, ())
    one.forward(ids, 1)
    assert (one.length, two.length) == (10, 0)
    two.forward(ids.flip(0), 1)
    again = one.forward(torch.tensor([10]), 1)
    close(again.logits, expected(model, torch.arange(11))[0][-1:])


@pytest.mark.parametrize(
    ("family", "settings"),
    [
        ("gemma2", {}),
        ("llama", {"hidden_act": "gelu"}),
        ("qwen3", {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 0}),
        ("llama", {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}}),
    ],
)
def test_what_this_forward_pass_does_not_compute_is_left_to_transformers(family, settings):
    assert not fits(target_model(family, **settings))


def test_a_target_too_large_to_keep_twice_is_not_packed(monkeypatch):
    target = DecoderTarget(target_model("llama"))
    monkeypatch.setattr(decoder_target, "PACKED_AT_MOST", target.weight_bytes - 1)
    target.prepare((4,))
    assert not target.lm_head.packed
    monkeypatch.setattr(decoder_target, "PACKED_AT_MOST", target.weight_bytes)
    target.prepare((4,))
    assert target.lm_head.packed == can_pack(target.lm_head.weight)


@torch.inference_mode()
def test_in_8_bits_a_token_is_the_same_alone_and_in_a_block(model):
    target = DecoderTarget(model)
    target.round()
    target.prepare((4, 8))
    for start in (1, 57, 60, 130):
        ids = (torch.arange(start + 8) * 7) % 40
        session = target.open(start + 8, TAPS)
        session.forward(ids[:start], 1)
        block = session.forward(ids[start:], 8)
        for width in (1, 2, 3, 4):
            session.crop(start)
            parts = [session.forward(part, len(part)) for part in ids[start:].split(width)]
            assert torch.equal(torch.cat([part.logits for part in parts]), block.logits)
            assert torch.equal(torch.cat([part.features for part in parts]), block.features)


@torch.inference_mode()
def test_in_8_bits_it_is_nearly_the_same_model(model):
    ids = torch.arange(20) % 40
    target = DecoderTarget(model)
    target.round()
    logits, _ = expected(model, ids)
    found = target.open(20, ()).forward(ids, 20).logits
    assert (found - logits).norm() < 0.25 * logits.norm()
    assert not torch.equal(found, logits)


def test_8_bits_are_for_float32():
    target = DecoderTarget(target_model().to(torch.bfloat16))
    with pytest.raises(Unsupported, match="float32"):
        target.round()


@torch.inference_mode()
def test_in_8_bits_a_token_is_the_same_beside_other_sequences(model):
    target = DecoderTarget(model)
    target.round()
    target.prepare((4, 8))
    ids = (torch.arange(140) * 7) % 40
    starts, counts = (1, 57, 60, 130), (1, 4, 8, 3)
    blocks = [ids[start : start + count] for start, count in zip(starts, counts, strict=True)]
    sessions = [target.open(140, TAPS) for _ in starts]
    alone = []
    for session, start, block in zip(sessions, starts, blocks, strict=True):
        session.forward(ids[:start], 1)
        alone.append(session.forward(block, len(block)))
        session.crop(start)
    for found, wanted in zip(target.check(sessions, blocks), alone, strict=True):
        assert torch.equal(found.logits, wanted.logits)
        assert torch.equal(found.features, wanted.features)
