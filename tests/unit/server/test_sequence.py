import pytest

from dflash_deploy.server.sequence import Job, RequestState
from dflash_deploy.speculative.types import Sampling, Step
from tests.unit.server.fakes import EOS, ByteText


class Steps:
    """A decoder of one fixed answer, cut into given steps."""

    max_context = 100
    block_size = 4

    def __init__(self, *steps):
        self.steps = steps

    def generate(self, prompt_ids, sampling, *, speculate=True):
        yield from self.steps


def run(*steps, stops=(), stop_token_ids=frozenset({EOS}), limit=100):
    sampling = Sampling(limit, stop_token_ids=stop_token_ids)
    state = RequestState(Job("id", (1, 2, 3), sampling, stops), ByteText().decode, lambda _: None)
    decoder, chunks = Steps(*steps), []
    while not chunks or chunks[-1].report is None:
        chunks.append(state.take(next(state.steps(decoder), None)))
    return "".join(c.text for c in chunks), chunks[-1].report, [c.token_ids for c in chunks]


def step(text, drafted=3, *extra):
    ids = (*text.encode(), *extra)
    return Step(ids, drafted, len(ids) - 1 if drafted else 0)


def test_counts_come_from_the_steps():
    text, report, _ = run(step("a", 0), step("bcde"), step("f"), step("gh", 3, EOS))
    assert (text, report.finish_reason) == ("abcdefgh", "stop")
    assert (report.prompt_tokens, report.completion_tokens) == (3, 9)
    assert (report.drafted, report.accepted) == (9, 5)
    assert report.accepted_by_step == (1, 0, 1, 1)
    assert report.spec_steps == 3
    assert report.mean_acceptance_length == pytest.approx(1 + 5 / 3)


def test_a_stop_string_cuts_the_block_and_the_count():
    text, report, ids = run(step("a", 0), step("bXYc"), stops=("XY",))
    assert (text, report.finish_reason, report.completion_tokens) == ("ab", "stop", 4)
    assert ids[-1] == tuple(b"bXY")
    assert report.accepted == 3  # what the engine did, also for tokens nobody sees


def test_a_stop_string_across_steps_shows_nothing_of_itself():
    text, report, _ = run(step("aX", 0), step("Yc"), stops=("XY",))
    assert (text, report.completion_tokens) == ("a", 3)


def test_the_beginning_of_a_stop_string_appears_when_the_answer_ends_with_it():
    text, report, _ = run(step("aX", 0, EOS), stops=("XY",))
    assert (text, report.finish_reason) == ("aX", "stop")


def test_half_a_character_may_complete_a_stop_string_at_the_end():
    text, report, _ = run(Step((65, 0xE2)), stops=("\ufffd",), limit=2)
    assert (text, report.finish_reason) == ("A", "stop")


def test_a_custom_stop_token_is_counted_and_not_shown():
    text, report, _ = run(step("ab!", 0), stop_token_ids=frozenset(b"!"))
    assert (text, report.completion_tokens, report.finish_reason) == ("ab", 3, "stop")


def test_the_limit_holds_even_if_a_step_brings_more():
    text, report, ids = run(step("a", 0), step("bcde"), limit=3)
    assert (text, report.finish_reason, report.completion_tokens) == ("abc", "length", 3)
    assert ids == [(97,), (98, 99)]


def test_a_stop_token_as_the_last_allowed_one_is_a_stop():
    assert run(step("a", 0, EOS), limit=2)[1].finish_reason == "stop"


def test_a_decoder_that_ends_short_of_the_limit_ends_with_length():
    text, report, _ = run(Step((65, 0xE2, 0x82)))
    assert (text, report.finish_reason) == ("A\ufffd", "length")
