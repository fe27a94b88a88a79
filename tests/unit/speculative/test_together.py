"""Several sequences in one pass of the target."""

import pytest
import torch

from dflash_deploy.speculative import linear, proposer
from dflash_deploy.speculative.decoder import SpeculativeDecoder
from dflash_deploy.speculative.decoder_target import DecoderTarget
from dflash_deploy.speculative.hub_target import HubTarget
from dflash_deploy.speculative.joint import MOST_ROWS, padded_rows, passes
from dflash_deploy.speculative.linear import can_pack
from dflash_deploy.speculative.pace import Steady
from dflash_deploy.speculative.sampling import Chooser
from dflash_deploy.speculative.types import Sampling
from tests.unit.speculative.tiny import draft_json, draft_model, target_model, tokens

VOCAB = 5
PROMPTS = [[first, 0, first, 1] for first in range(VOCAB)]
WIDE = draft_json(vocab=VOCAB, block_size=8)


@pytest.fixture(params=["packed", "transformers"])
def decoder(request, monkeypatch):
    # in 8 bits a neighbour changes what is proposed, though not what is said
    monkeypatch.setattr(linear, "can_round", lambda _: False)
    monkeypatch.setattr(proposer, "can_round", lambda _: False)
    model = target_model(vocab=VOCAB)
    packed = request.param == "packed"
    return SpeculativeDecoder(
        DecoderTarget(model) if packed else HubTarget(model), draft_model(WIDE)
    )


def finish(decoder, sequences):
    """Steps of each, a round at a time."""
    found = [[] for _ in sequences]
    live = list(range(len(sequences)))
    while live:
        outcomes = decoder.together([sequences[index] for index in live])
        for index, step in zip(tuple(live), outcomes, strict=True):
            if step is None:
                live.remove(index)
            else:
                found[index].append(step)
    return found


def test_each_says_together_what_it_says_alone(decoder):
    """Beside others of other lengths, kinds and ends, and when a neighbour leaves."""
    kinds = [
        (Sampling(30), True),
        (Sampling(9, stop_token_ids=frozenset({2})), True),
        (Sampling(21, temperature=0.9, seed=5), True),
        (Sampling(17), False),
        (Sampling(30, logprobs=1), True),
    ]

    def start():
        return [
            decoder.generate(prompt, sampling, speculate=speculate)
            for prompt, (sampling, speculate) in zip(PROMPTS, kinds, strict=True)
        ]

    together = finish(decoder, start())
    for steps, alone in zip(together, start(), strict=True):
        wanted = list(alone)
        assert [(s.tokens, s.drafted, s.accepted) for s in steps] == [
            (s.tokens, s.drafted, s.accepted) for s in wanted
        ]
    said = [chance.logprob for step in together[4] for chance in step.chances]
    wanted = [chance.logprob for step in start()[4] for chance in step.chances]
    assert said == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("second", [False, True], ids=["dflash", "dflash 2"])
def test_a_draft_in_8_bits_changes_no_answer(second):
    """Greedy ones are drafted together, seeded ones alone; DFlash 2 always alone."""
    raw = draft_json(vocab=VOCAB, block_size=8, second=second)
    decoder = SpeculativeDecoder(DecoderTarget(target_model(vocab=VOCAB)), draft_model(raw))
    samplings = [Sampling(25), Sampling(25, temperature=0.9, seed=4)]
    kinds = [(prompt, sampling) for prompt in PROMPTS[:3] for sampling in samplings]
    steps = finish(decoder, [decoder.generate(*kind) for kind in kinds])
    assert [tokens(found) for found in steps] == [tokens(decoder.generate(*k)) for k in kinds]


@pytest.mark.parametrize("causal", [False, True])
def test_a_draft_of_several_is_the_draft_of_each(monkeypatch, causal):
    monkeypatch.setattr(linear, "can_round", lambda _: False)
    monkeypatch.setattr(proposer, "can_round", lambda _: False)
    raw = draft_json(block_size=8, layer_types=["sliding_attention", "full_attention"],
                     sliding_window=6, is_causal=causal)  # fmt: skip
    torch.manual_seed(0)
    with torch.inference_mode():
        draft = proposer.Proposer(draft_model(raw), DecoderTarget(target_model()), 8)
        states = [draft.open(40) for _ in range(3)]
        for length, state in zip((3, 9, 20), states, strict=True):
            draft.commit(state, torch.randn(length, 64), length)
        asked = [(state, anchor, 20, Steady()) for anchor, state in enumerate(states, start=5)]
        chooser = Chooser(Sampling(9), torch.device("cpu"))
        for found, one in zip(draft.propose_together(asked), asked, strict=True):
            state, anchor, limit, pace = one
            wanted = draft.propose(state, anchor, limit, chooser, pace)
            assert found.tokens.equal(wanted.tokens)
            torch.testing.assert_close(found.peaks, wanted.peaks)


def test_one_pass_is_run_for_all(monkeypatch):
    decoder = SpeculativeDecoder(DecoderTarget(target_model(vocab=VOCAB)), draft_model(WIDE))
    sequences = [decoder.generate(prompt, Sampling(30)) for prompt in PROMPTS[:3]]
    decoder.together(sequences)
    seen = []
    run = DecoderTarget.run

    def counted(self, ids, place, taps):
        seen.append(len(ids))
        return run(self, ids, place, taps)

    monkeypatch.setattr(DecoderTarget, "run", counted)
    steps = decoder.together(sequences)
    rows = sum(step.drafted + 1 for step in steps)
    packed = sorted(decoder._target.lm_head.packed_rows)
    assert seen == [padded_rows(rows, packed)]


def test_who_fails_alone_fails_alone(decoder, monkeypatch):
    wanted = [tokens(decoder.generate(prompt, Sampling(12))) for prompt in PROMPTS[:3]]
    sequences = [decoder.generate(prompt, Sampling(12)) for prompt in PROMPTS[:3]]
    first = decoder.together(sequences)

    def broken(*_):
        raise ArithmeticError("no number")

    monkeypatch.setattr(sequences[1].lane, "judge", broken)
    outcomes = decoder.together(sequences)
    assert isinstance(outcomes[1], ArithmeticError)
    assert next(sequences[1], None) is None
    for index in (0, 2):
        told = [*first[index].tokens, *outcomes[index].tokens, *tokens(sequences[index])]
        assert told == wanted[index]


def test_rows_are_padded_to_a_width_that_sums_alike():
    assert [padded_rows(rows, (4, 8)) for rows in (1, 2, 4, 5, 8, 9, 16, 17, 48)] == [
        1, 4, 4, 8, 8, 16, 16, 20, 48,
    ]  # fmt: skip
    assert [padded_rows(rows, ()) for rows in (1, 2, 9)] == [1, 2, 9]


def test_a_pass_has_no_more_rows_than_it_may():
    assert passes([8] * 3) == [range(3)]
    assert passes([8] * 7) == [range(6), range(6, 7)]
    assert passes([MOST_ROWS + 1, 1]) == [range(1), range(1, 2)]


def test_a_row_comes_out_the_same_among_any_others():
    """The property of this machine's library that `padded_rows` stands on."""
    target = DecoderTarget(
        target_model(vocab=64, hidden_size=576, intermediate_size=1536, num_hidden_layers=1,
                     num_attention_heads=9, num_key_value_heads=3, head_dim=64)
    )  # fmt: skip
    target.prepare((4, 8))
    packed = can_pack(target.lm_head.weight)
    assert target.lm_head.packed == packed
    same = torch.equal if packed else torch.allclose  # without MKL nothing is promised bit by bit
    with torch.inference_mode():
        block = torch.arange(8)
        alone = target.open(16, ()).forward(block, 8).logits
        for others in (1, 2, 5):
            sessions = [target.open(16, ()) for _ in range(others + 1)]
            blocks = [torch.arange(20, 20 + size) for size in (2, 5, 8, 3, 8)[:others]]
            seen = target.check(sessions, [*blocks, block])[-1].logits
            assert same(seen, alone)
