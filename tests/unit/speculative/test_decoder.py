import gc
import itertools
import math
import weakref
from collections import Counter
from dataclasses import replace

import pytest
import torch

from dflash_deploy.errors import Unsupported
from dflash_deploy.speculative import pace, proposer
from dflash_deploy.speculative.decoder import SpeculativeDecoder, check_fit
from dflash_deploy.speculative.sampling import Proposal, distribution
from dflash_deploy.speculative.types import Sampling
from tests.unit.speculative.tiny import (
    draft_json,
    draft_model,
    generated,
    target_model,
    tokens,
)

# so few tokens that a random draft is right now and then: every count of accepted tokens occurs
VOCAB = 5
LAYERS_SMALL = 2
PROMPTS = [[a, b, (a + b) % VOCAB, 1] for a, b in itertools.product(range(VOCAB), range(2))]


@pytest.fixture(scope="module", params=["llama", "qwen3"])
def model(request):
    return target_model(request.param, vocab=VOCAB)


@pytest.fixture(scope="module", params=["dflash", "dflash 2"])
def decoder(request, model):
    raw = draft_json(vocab=VOCAB, second=request.param == "dflash 2")
    return SpeculativeDecoder(model, draft_model(raw))


def test_greedy_equals_plain_decoding_and_transformers(model, decoder):
    accepted = Counter()
    for prompt in PROMPTS:
        steps = list(decoder.generate(prompt, Sampling(30)))
        plain = list(decoder.generate(prompt, Sampling(30), speculate=False))
        assert tokens(steps) == tokens(plain) == generated(model, prompt, 30)
        accepted.update(step.accepted for step in steps if step.drafted)
    assert set(accepted) == {0, 1, 2, 3}


def test_steps_count_what_was_drafted(decoder):
    steps = list(decoder.generate([1, 2, 3], Sampling(30)))
    assert (steps[0].drafted, steps[0].accepted, len(steps[0].tokens)) == (0, 0, 1)
    for step in steps[1:]:
        assert step.drafted <= decoder.block_size - 1
        assert len(step.tokens) == step.accepted + 1
    plain = list(decoder.generate([1, 2, 3], Sampling(30), speculate=False))
    assert all((step.drafted, step.accepted, len(step.tokens)) == (0, 0, 1) for step in plain)


@pytest.mark.parametrize("count", range(1, 8))
def test_never_more_tokens_than_asked_for(decoder, count):
    steps = list(decoder.generate([1, 2], Sampling(count)))
    assert len(tokens(steps)) == count
    left = count
    for step in steps:
        assert step.drafted < max(left, 1)
        left -= len(step.tokens)


def test_prompt_and_answer_may_fill_the_context_and_no_more(decoder):
    prompt = [1] * (decoder.max_context - 6)
    assert len(tokens(decoder.generate(prompt, Sampling(6)))) == 6
    with pytest.raises(ValueError, match="257 tokens of 256"):
        decoder.generate(prompt, Sampling(7))


@pytest.mark.parametrize("prompt", [[], [VOCAB], [-1]])
def test_a_wrong_prompt_is_refused_at_once(decoder, prompt):
    with pytest.raises(ValueError, match="prompt"):
        decoder.generate(prompt, Sampling(4))


def test_a_stop_token_is_the_last(decoder):
    whole = tokens(decoder.generate([2, 1], Sampling(40)))
    for stop in set(whole):
        sampling = Sampling(40, stop_token_ids=frozenset({stop}))
        steps = list(decoder.generate([2, 1], sampling))
        assert tokens(steps) == whole[: whole.index(stop) + 1]
        assert all(step.accepted <= len(step.tokens) for step in steps)


def test_sequences_are_independent_when_interleaved(decoder):
    alone = [tokens(decoder.generate(prompt, Sampling(20))) for prompt in PROMPTS[:3]]
    running = [decoder.generate(prompt, Sampling(20)) for prompt in PROMPTS[:3]]
    found = [[] for _ in running]
    for step in itertools.zip_longest(*running):
        for answer, part in zip(found, step, strict=True):
            answer.extend(part.tokens if part else ())
    assert found == alone


def test_the_callers_code_runs_outside_inference_mode(decoder):
    for _ in decoder.generate([1, 2], Sampling(5)):
        assert not torch.is_inference_mode_enabled()


def test_closing_a_sequence_frees_its_caches(decoder, monkeypatch):
    sessions = []
    open_session = decoder._target.open

    def remember(*arguments):
        session = open_session(*arguments)
        sessions.append(weakref.ref(session))
        return session

    monkeypatch.setattr(decoder._target, "open", remember)
    running = decoder.generate([1, 2], Sampling(20))
    next(running)
    assert sessions[0]() is not None
    running.close()
    del running
    gc.collect()
    assert sessions[0]() is None


def test_a_shorter_block_is_taken_and_a_longer_refused(model):
    draft = draft_model(draft_json(vocab=VOCAB))
    short = SpeculativeDecoder(model, draft, block_size=2)
    assert short.block_size == 2
    answer = tokens(short.generate([1, 2], Sampling(20)))
    assert answer == generated(model, [1, 2], 20)
    for wrong in (1, 5):
        with pytest.raises(Unsupported, match="2 to 4"):
            SpeculativeDecoder(model, draft, block_size=wrong)


def test_without_a_draft_it_is_plain(model):
    plain = SpeculativeDecoder(model)
    assert plain.block_size == 1
    assert tokens(plain.generate([1, 2], Sampling(9))) == generated(model, [1, 2], 9)


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"hidden_size": 64}, "hidden size"),
        ({"num_target_layers": 9}, "number of layers"),
        ({"vocab": 77}, "vocabulary"),
    ],
)
def test_a_draft_of_another_target_is_refused(settings, what):
    draft = draft_model(draft_json(**settings))
    with pytest.raises(Unsupported, match=f"another target: its {what}"):
        SpeculativeDecoder(target_model(), draft)
    check_fit(draft_model().config, SpeculativeDecoder(target_model())._target.shape)


def joint(model, prompt, sampling, length):
    """The exact probability of every answer of `length` tokens."""
    weights = {(): 1.0}
    for _ in range(length):
        longer = {}
        for answer, weight in weights.items():
            with torch.inference_mode():
                logits = model(input_ids=torch.tensor([[*prompt, *answer]])).logits[0, -1]
            for token, chance in enumerate(distribution(logits, sampling).tolist()):
                longer[(*answer, token)] = weight * chance
        weights = longer
    return weights


def unlikely(counts, weights):
    """Chi-square of counted answers, rare ones pooled, as a standard normal."""
    total = sum(counts.values())
    assert all(weights[answer] > 0 for answer in counts)
    cells = [(counts[answer], total * weight) for answer, weight in weights.items()]
    common = [cell for cell in cells if cell[1] >= 5]
    rare = [cell for cell in cells if cell[1] < 5]
    common.append((sum(n for n, _ in rare), sum(e for _, e in rare) or 1e-9))
    value = sum((n - e) ** 2 / e for n, e in common)
    freedom = len(common) - 1
    spread = 2 / (9 * freedom)
    return ((value / freedom) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)


def drawn(decoder, prompt, sampling, count):
    """The steps of `count` answers, a seed each; side by side, which costs less than one by one.

    Every eighth group is drawn one by one: a cycle of its own has the same verdicts.
    """
    for first in range(0, count, 20):
        running = [
            decoder.generate(prompt, replace(sampling, seed=seed))
            for seed in range(first, min(first + 20, count))
        ]
        if first // 20 % 8 == 0:
            yield from map(list, running)
            continue
        found = [[] for _ in running]
        while any(steps := decoder.together(running)):
            for answer, step in zip(found, steps, strict=True):
                answer.extend([step] if step else [])
        yield from found


def stubborn(hidden, _logits, _anchor, _chooser):
    """A draft that is sure of the same token for ever."""
    return Proposal(torch.full((hidden.shape[0],), 3), torch.ones(hidden.shape[0]))


@pytest.mark.parametrize("kind", ["dflash", "dflash 2", "bad"])
def test_sampled_answers_have_the_targets_distribution(kind):
    small = target_model("llama", vocab=4, num_hidden_layers=LAYERS_SMALL)
    raw = draft_json(vocab=4, second=kind == "dflash 2", num_target_layers=LAYERS_SMALL)
    raw["dflash_config"] |= {"target_layer_ids": [0, 1]}
    draft = draft_model(raw)
    if kind == "bad":
        draft.propose = stubborn
    decoder = SpeculativeDecoder(small, draft)
    sampling = Sampling(4, temperature=0.8, top_p=0.95)
    counts = Counter(tuple(tokens(s)) for s in drawn(decoder, [1, 2, 3], sampling, 1000))
    assert counts.total() == 1000
    weights = joint(small, [1, 2, 3], sampling, 4)
    assert unlikely(counts, weights) < 3.3


@pytest.mark.parametrize("second", [False, True])
def test_choosing_how_much_to_check_does_not_bend_the_distribution(monkeypatch, second):
    monkeypatch.setattr(proposer, "widths", lambda _block, _device: (2, 4))
    monkeypatch.setattr(pace, "WIDE_FROM", 0.42 if second else 0.25)
    small = target_model("llama", vocab=3, num_hidden_layers=LAYERS_SMALL)
    raw = draft_json(vocab=3, second=second, num_target_layers=LAYERS_SMALL)
    raw["dflash_config"] |= {"target_layer_ids": [0, 1], "mask_token_id": 2}
    if second:
        raw["dflash_config"]["selector_top_k"] = 2
    decoder = SpeculativeDecoder(small, draft_model(raw))
    counts, drafted = Counter(), Counter()
    for steps in drawn(decoder, [1, 2, 0], Sampling(5, temperature=1.5), 1000):
        counts[tuple(tokens(steps))] += 1
        drafted[steps[1].drafted] += 1
    assert set(drafted) == {1, 3}
    assert min(drafted.values()) > 50
    assert unlikely(counts, joint(small, [1, 2, 0], Sampling(5, temperature=1.5), 5)) < 3.3


def test_a_seed_repeats_the_answer(decoder):
    sampling = Sampling(30, temperature=1.0, seed=7)
    first = tokens(decoder.generate([1, 2], sampling))
    assert first == tokens(decoder.generate([1, 2], sampling))
    assert first != tokens(decoder.generate([1, 2], Sampling(30, temperature=1.0, seed=8)))


def test_log_probabilities_of_a_block_are_those_of_plain_decoding(model, decoder):
    asked = Sampling(30, logprobs=3)
    for prompt in PROMPTS[:4]:
        steps = list(decoder.generate(prompt, asked))
        told = [chance for step in steps for chance in step.chances]
        plain = [c for s in decoder.generate(prompt, asked, speculate=False) for c in s.chances]
        said = tokens(steps)
        logits = model(torch.tensor([prompt + said])).logits.detach()[0, len(prompt) - 1 : -1]
        reference = logits.log_softmax(-1)
        assert len(told) == len(plain) == len(said) == 30
        for chance, other, token, row in zip(told, plain, said, reference, strict=True):
            assert chance.logprob == pytest.approx(other.logprob, abs=1e-4)
            assert chance.logprob == pytest.approx(float(row[token]), abs=1e-4)
            assert [value for _, value in chance.top] == pytest.approx(
                row.topk(3).values.tolist(), abs=1e-4
            )
            assert chance.top[0][0] == token  # greedy


def test_log_probabilities_are_before_temperature_and_end_with_the_answer(model, decoder):
    said = tokens(decoder.generate([1, 2], Sampling(30)))
    asked = Sampling(30, 0.7, seed=3, stop_token_ids=frozenset({said[4]}), logprobs=0)
    steps = list(decoder.generate([1, 2], asked))
    answer = tokens(steps)
    row = model(torch.tensor([[1, 2]])).logits.detach()[0, -1].log_softmax(-1)
    assert steps[0].chances[0].logprob == pytest.approx(float(row[answer[0]]), abs=1e-4)
    assert all(len(step.chances) == len(step.tokens) for step in steps)
    assert not any(chance.top for step in steps for chance in step.chances)


def test_who_does_not_ask_gets_none(decoder):
    assert not any(step.chances for step in decoder.generate([1, 2], Sampling(8)))
