"""A decoder that leaves out a draft that does not pay, by a clock that is made up."""

import itertools
import random
from collections import Counter

import pytest

from dflash_deploy.speculative import decoder as module
from dflash_deploy.speculative import lane
from dflash_deploy.speculative.decoder import SpeculativeDecoder
from dflash_deploy.speculative.types import Sampling
from tests.unit.speculative.test_decoder import LAYERS_SMALL, PROMPTS, VOCAB, joint, unlikely
from tests.unit.speculative.tiny import draft_json, draft_model, generated, target_model, tokens


class Clock:
    """Every look at it comes some seconds after the one before."""

    def __init__(self, seconds):
        self._seconds = iter(seconds)
        self._now = 0.0

    def __call__(self):
        self._now += next(self._seconds)
        return self._now


def looks(trial, seconds):
    """A cycle is between two looks: plain, narrow and wide in turn at the trial, then `seconds`."""
    for cycle in itertools.chain(trial * (1 + module.TRIAL_ROUNDS), seconds):
        yield from (0.0, cycle)


@pytest.fixture
def clock(monkeypatch):
    def set_clock(seconds, trial=(1.0, 1.5, 1.5)):
        monkeypatch.setattr(lane.time, "perf_counter", Clock(looks(trial, seconds)))

    return set_clock


@pytest.fixture(scope="module")
def model():
    return target_model(vocab=VOCAB)


def made(model, **settings):
    return SpeculativeDecoder(
        model, draft_model(draft_json(vocab=VOCAB, **settings)), adaptive=True
    )


def kinds(steps):
    return Counter("drafted" if s.drafted else "declined" if s.declined else "own" for s in steps)


def test_text_stays_the_targets_whenever_the_draft_is_left_out(clock, model):
    chance = random.Random(0)
    clock(chance.choice((0.5, 1.0, 2.0)) for _ in itertools.count())
    decoder = made(model)
    seen = Counter()
    for prompt in PROMPTS[:5]:
        steps = list(decoder.generate(prompt, Sampling(40)))
        assert tokens(steps) == generated(model, prompt, 40)
        seen += kinds(steps)
    assert seen["drafted"] > 10
    assert seen["declined"] > 10


def test_a_dear_draft_is_left_out_and_a_cheap_one_is_not(clock, model):
    clock(itertools.repeat(1.0), trial=(1.0, 1.0, 1.0))
    assert kinds(made(model).generate([1, 2], Sampling(40)))["declined"] == 0
    clock(itertools.repeat(1.0), trial=(1.0, 9.0, 9.0))
    seen = kinds(made(model).generate([1, 2], Sampling(40)))
    assert seen["drafted"] == 1
    assert seen["declined"] > 30


def test_a_seed_repeats_an_answer_whatever_the_clock_says(clock, model):
    sampling = Sampling(60, temperature=1.0, seed=7)
    clock(itertools.repeat(1.0))
    decoder = made(model)
    first = tokens(decoder.generate([1, 2], sampling))
    for seconds in (0.1, 30.0):
        clock(itertools.repeat(seconds))
        list(decoder.generate([1, 2], Sampling(20)))
        assert tokens(decoder.generate([1, 2], sampling)) == first


def test_requests_that_share_passes_keep_their_own_credit(clock, model):
    clock(itertools.repeat(1.0), trial=(1.0, 9.0, 9.0))
    decoder = made(model)
    sequences = [decoder.generate(prompt, Sampling(40)) for prompt in PROMPTS[:3]]
    told = [[] for _ in sequences]
    while any(steps := decoder.together(sequences)):
        for found, step in zip(told, steps, strict=True):
            found.extend([step] if step else [])
    for prompt, steps in zip(PROMPTS, told, strict=False):
        assert tokens(steps) == generated(model, prompt, 40)
        assert kinds(steps)["drafted"] == 1
        assert kinds(steps)["declined"] > 30


def test_without_adapting_nothing_is_measured(monkeypatch, model):
    monkeypatch.setattr(module.SpeculativeDecoder, "_measure", None)
    decoder = SpeculativeDecoder(model, draft_model(draft_json(vocab=VOCAB)))
    assert kinds(decoder.generate([1, 2], Sampling(40)))["declined"] == 0


def test_a_context_too_short_for_the_trial_is_served(model):
    short = target_model(vocab=VOCAB, max_position_embeddings=8)
    decoder = made(short)
    assert len(tokens(decoder.generate([1, 2], Sampling(6)))) == 6


def test_leaving_the_draft_out_does_not_bend_the_distribution(clock):
    # one cycle that finds nothing is one too many
    clock(itertools.repeat(1.0), trial=(1.0, 2.2, 2.2))
    small = target_model("llama", vocab=3, num_hidden_layers=LAYERS_SMALL)
    raw = draft_json(vocab=3, num_target_layers=LAYERS_SMALL)
    raw["dflash_config"] |= {"target_layer_ids": [0, 1], "mask_token_id": 2}
    decoder = SpeculativeDecoder(small, draft_model(raw), adaptive=True)
    counts, seen = Counter(), Counter()
    for seed in range(1000):
        steps = list(decoder.generate([1, 2, 0], Sampling(5, temperature=1.5, seed=seed)))
        counts[tuple(tokens(steps))] += 1
        seen += kinds(steps)
    assert min(seen["declined"], seen["drafted"]) > 500
    assert unlikely(counts, joint(small, [1, 2, 0], Sampling(5, temperature=1.5), 5)) < 3.3
