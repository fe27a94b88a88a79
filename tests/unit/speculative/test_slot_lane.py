"""The steps that a GPU records, run here unrecorded, beside the ordinary path."""

import itertools

import pytest

from dflash_deploy.speculative import decoder as module
from dflash_deploy.speculative import linear, proposer
from dflash_deploy.speculative.decoder import SpeculativeDecoder
from dflash_deploy.speculative.types import Sampling
from tests.unit.speculative.tiny import draft_json, draft_model, target_model, tokens

VOCAB = 5
PROMPTS = [[first, 0, first, 1] for first in range(VOCAB)]
DRAFTS = {
    "dflash": draft_json(vocab=VOCAB),
    "dflash 2": draft_json(vocab=VOCAB, second=True),
    "sliding": draft_json(
        vocab=VOCAB, layer_types=["sliding_attention", "full_attention"], sliding_window=6
    ),
}


@pytest.fixture(autouse=True)
def _exact(monkeypatch):
    """A draft in 8 bits draws other samples."""
    monkeypatch.setattr(linear, "can_round", lambda _: False)
    monkeypatch.setattr(proposer, "can_round", lambda _: False)


@pytest.fixture
def make(monkeypatch):
    """A decoder of a tiny pair, in slots or on the ordinary path."""

    def make(*, slots, draft="dflash", family="llama"):
        monkeypatch.setattr(module, "can_record", lambda _: slots)
        model = target_model(family, vocab=VOCAB)
        return SpeculativeDecoder(model, None if draft is None else draft_model(DRAFTS[draft]))

    return make


@pytest.mark.parametrize(
    ("draft", "family"), [("dflash", "llama"), ("dflash 2", "qwen3"), ("sliding", "qwen3")]
)
def test_greedy_steps_are_those_of_the_ordinary_path_and_of_plain_decoding(make, draft, family):
    slots, ordinary = (make(slots=on, draft=draft, family=family) for on in (True, False))
    accepted = set()
    for prompt in PROMPTS:
        steps = list(slots.generate(prompt, Sampling(30)))
        assert steps == list(ordinary.generate(prompt, Sampling(30)))
        assert tokens(steps) == tokens(slots.generate(prompt, Sampling(30), speculate=False))
        accepted |= {step.accepted for step in steps}
    assert accepted >= {0, 1}


@pytest.mark.parametrize("draft", DRAFTS)
def test_sampled_steps_are_those_of_the_ordinary_path(make, draft):
    slots, ordinary = make(slots=True, draft=draft), make(slots=False, draft=draft)
    for prompt, speculate in itertools.product(PROMPTS[:2], (True, False)):
        sampling = Sampling(30, temperature=0.8, top_p=0.9, seed=3)
        steps = list(slots.generate(prompt, sampling, speculate=speculate))
        assert steps == list(ordinary.generate(prompt, sampling, speculate=speculate))


def test_without_a_draft_a_cycle_is_one_row(make):
    slots, ordinary = make(slots=True, draft=None), make(slots=False, draft=None)
    assert slots._slots.buffers.width == 1
    for prompt in PROMPTS[:3]:
        steps = list(slots.generate(prompt, Sampling(30)))
        assert steps == list(ordinary.generate(prompt, Sampling(30)))


def test_log_probabilities_are_those_of_the_committed_tokens(make):
    slots, ordinary = make(slots=True), make(slots=False)
    for found, wanted in zip(
        slots.generate([1, 2, 3], Sampling(20, logprobs=2)),
        ordinary.generate([1, 2, 3], Sampling(20, logprobs=2)),
        strict=True,
    ):
        assert [c.logprob for c in found.chances] == pytest.approx(
            [c.logprob for c in wanted.chances], abs=1e-4
        )


def test_sequences_that_take_turns_do_not_see_one_another(make):
    decoder = make(slots=True)
    wanted = [tokens(decoder.generate(prompt, Sampling(24))) for prompt in PROMPTS]
    # more than there are slots: the others are decoded as without
    running = {n: decoder.generate(prompt, Sampling(24)) for n, prompt in enumerate(PROMPTS)}
    found = [[] for _ in PROMPTS]
    while running:
        for number, steps in tuple(running.items()):
            step = next(steps, None)
            if step is None:
                del running[number]
            else:
                found[number] += step.tokens
    assert found == wanted


def test_a_slot_is_free_again_when_a_sequence_ends_or_is_closed(make):
    decoder = make(slots=True)
    free = list(decoder._slots._free)
    tokens(decoder.generate([1, 2], Sampling(9)))
    given_up = decoder.generate([1, 2], Sampling(9))
    next(given_up)
    assert len(decoder._slots._free) == len(free) - 1
    given_up.close()
    assert sorted(decoder._slots._free) == free


def test_what_is_longer_than_a_slot_is_decoded_without_one(make, monkeypatch):
    monkeypatch.setattr(module, "SLOT_CAPACITY", 16)
    decoder, ordinary = make(slots=True), make(slots=False)
    free = len(decoder._slots._free)
    for count in (12, 13, 40):  # the first fills its slot to the last position
        steps = decoder.generate([1, 2, 3, 4], Sampling(count))
        found = [*next(steps).tokens]
        assert len(decoder._slots._free) == free - (count == 12)
        assert [*found, *tokens(steps)] == tokens(ordinary.generate([1, 2, 3, 4], Sampling(count)))
