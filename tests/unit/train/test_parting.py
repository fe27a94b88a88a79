"""A draft's answer beside plain decoding's: the same, a near tie, or another text."""

from __future__ import annotations

import pytest

from dflash_deploy.cli._training_told import same_text
from dflash_deploy.measure.lossless import BETWEEN_SUMS
from dflash_deploy.speculative import SpeculativeDecoder
from dflash_deploy.speculative.types import Chance, Sampling, Step
from dflash_deploy.train import acceptance
from dflash_deploy.train.blocks import Answer
from dflash_deploy.train.parting import parting
from tests.unit.speculative import tiny

PROMPT = [5, 6, 7]
NEAR = BETWEEN_SUMS["float32"]


@pytest.fixture(scope="module")
def decoder():
    return SpeculativeDecoder(tiny.target_model(), tiny.draft_model())


def plain(decoder, count):
    sampling = Sampling(count, logprobs=3)
    return [(step.tokens[0], step.chances[0].top)
            for step in decoder.generate(PROMPT, sampling, speculate=False)]  # fmt: skip


def test_the_draft_of_a_pair_that_is_lossless_parts_nowhere(decoder):
    sampling = Sampling(40)
    assert parting(decoder, PROMPT, sampling, decoder.generate(PROMPT, sampling)) is None


def test_what_a_first_difference_costs_is_said_by_the_target_and_what_follows_is_not(decoder):
    said = plain(decoder, 12)
    (_, best), (second, less) = said[7][1][:2]
    other = [token for token, _ in said]
    other[7:] = [second, 0, 0, 0, 0]
    found = parting(decoder, PROMPT, Sampling(12), [Step(tuple(other[:4])), Step(tuple(other[4:]))])
    assert (found.position, found.plain, found.dflash) == (7, str(said[7][0]), str(second))
    assert found.regret == pytest.approx(best - less)


class Decoder:
    """Says 1 2 3, in two minds about its second token; with the draft it says what it is told."""

    max_context = 20

    def __init__(self, drafted, doubt):
        self.drafted, self.doubt, self.asked = drafted, doubt, []

    def generate(self, prompt, sampling, *, speculate=True):
        self.asked.append(len(prompt) + sampling.max_new_tokens)
        if speculate:
            return iter([Step(tuple(self.drafted))])
        chances = (Chance(-0.1, ()), Chance(-0.7, ((2, -0.7), (9, -0.7 - self.doubt))), Chance(0.0))
        return iter([Step((1, 2, 3), chances=chances)])


def found(drafted, doubt, prompt=PROMPT):
    decoder = Decoder(drafted, doubt)
    answer = Answer(7, [*prompt, 1], [0] * len(prompt) + [1])
    seen = acceptance.judged(decoder, [answer], frozenset(), NEAR, lambda: False)
    return acceptance.summed([], {}, 4, seen), decoder


def test_the_same_text():
    seen, _ = found([1, 2, 3], 5.0)
    assert (seen.checked, seen.equal, seen.near_ties, seen.partings) == (1, 1, 0, [])


def test_a_difference_within_rounding_is_a_near_tie_and_no_equal_text():
    seen, _ = found([1, 9, 9], NEAR / 2)
    assert (seen.checked, seen.equal, seen.near_ties) == (1, 0, 1)
    assert seen.partings[0].position == 1


def test_a_difference_beyond_rounding_is_neither():
    seen, _ = found([1, 9, 9], NEAR * 2)
    assert (seen.checked, seen.equal, seen.near_ties) == (1, 0, 0)
    assert seen.partings[0].regret == pytest.approx(NEAR * 2)


def test_a_prompt_that_fills_the_context_is_checked_as_far_as_there_is_room():
    _, decoder = found([1, 2, 3], 5.0, prompt=list(range(17)))
    assert decoder.asked == [20, 20]


def told(**said):
    return same_text({"equal": 3, "checked": 4, **said})


def test_a_near_tie_and_another_text_are_told_apart():
    assert told() == "3 of 4 as plain decoding"  # what an older run's file says
    near, costly = {"regret": 0.0004}, {"regret": 1.2}
    assert told(near_ties=1, partings=[near]) == (
        "3 of 4 as plain decoding; 1 at a near tie, the widest by 0.0004 nats"
    )
    assert told(near_ties=1, partings=[costly, near]) == (
        "3 of 4 as plain decoding; 1 with ANOTHER TEXT where the target was not in doubt, the widest by"
        " 1.2 nats; 1 at a near tie, the widest by 0.0004 nats"
    )
