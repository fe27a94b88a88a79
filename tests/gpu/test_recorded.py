"""CUDA graphs of the embedded engine beside the same steps unrecorded: `pytest -m gpu tests/gpu`."""

from __future__ import annotations

import pytest
import torch

from dflash_deploy.speculative import decoder as module
from dflash_deploy.speculative import load_draft, load_target
from dflash_deploy.speculative.decoder import SpeculativeDecoder
from dflash_deploy.speculative.load import as_target
from dflash_deploy.speculative.types import Sampling
from tests.unit.speculative.tiny import draft_json, draft_model, target_model, tokens

pytestmark = pytest.mark.gpu

PROMPTS = [[first, 0, first, 1] for first in range(5)]


def tiny(family, second, monkeypatch=None, *, dtype=torch.float32):
    """A tiny pair on the card; recorded, or as the ordinary path."""
    model = target_model(family, vocab=5, max_position_embeddings=1024).to("cuda", dtype)
    raw = draft_json(vocab=5, second=second, max_position_embeddings=1024)
    if monkeypatch is not None:
        monkeypatch.setattr(module, "can_record", lambda _: False)
    return SpeculativeDecoder(as_target(model), draft_model(raw))


@pytest.mark.parametrize("second", [False, True], ids=["dflash", "dflash 2"])
@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_recorded_cycles_say_what_the_ordinary_path_says(family, second, monkeypatch):
    recorded = tiny(family, second)
    ordinary = tiny(family, second, monkeypatch)
    assert recorded._slots is not None
    assert ordinary._slots is None
    accepted = 0
    for prompt in PROMPTS:
        # far enough for a second reach
        steps = list(recorded.generate(prompt, Sampling(300)))
        assert tokens(steps) == tokens(ordinary.generate(prompt, Sampling(300)))
        assert tokens(steps) == tokens(recorded.generate(prompt, Sampling(300), speculate=False))
        accepted += sum(step.accepted for step in steps)
    assert accepted


def test_recorded_cycles_sample_as_the_ordinary_path_does(monkeypatch):
    recorded, ordinary = tiny("llama", False), tiny("llama", False, monkeypatch)
    sampling = Sampling(60, temperature=0.8, top_p=0.9, seed=3)
    for prompt in PROMPTS:
        wanted = list(ordinary.generate(prompt, sampling))
        assert list(recorded.generate(prompt, sampling)) == wanted


def test_sequences_that_take_turns_have_their_own_recordings():
    decoder = tiny("llama", False, dtype=torch.bfloat16)
    wanted = [tokens(decoder.generate(prompt, Sampling(40))) for prompt in PROMPTS[:4]]
    running = [decoder.generate(prompt, Sampling(40)) for prompt in PROMPTS[:4]]
    found = [[] for _ in running]
    for _ in range(40):
        for number, steps in enumerate(running):
            if (step := next(steps, None)) is not None:
                found[number] += step.tokens
    assert found == wanted


def test_a_cycle_waits_for_the_card_once():
    """One small copy tells what was committed; recording is over by then."""
    decoder = tiny("llama", False)
    tokens(decoder.generate(PROMPTS[0], Sampling(60)))
    steps = decoder.generate(PROMPTS[0], Sampling(60))
    next(steps)
    next(steps)
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with pytest.warns(UserWarning, match="synchronizing") as seen:
            cycles = [next(steps) for _ in range(5)]
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert len(seen) <= len(cycles)


def test_the_demo_pair_speaks_the_same_with_and_without_its_draft(demo_target, demo_draft):
    target = load_target(demo_target, dtype="bfloat16", device="cuda")
    decoder = SpeculativeDecoder(target, load_draft(demo_draft))
    prompt = list(range(100, 140))
    steps = list(decoder.generate(prompt, Sampling(128)))
    assert tokens(steps) == tokens(decoder.generate(prompt, Sampling(128), speculate=False))
