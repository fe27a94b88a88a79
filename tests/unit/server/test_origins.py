"""Each character of an answer is told once, as the token's that completed it."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from dflash_deploy.server.origins import Origins, Span
from dflash_deploy.server.sequence import Job, RequestState
from dflash_deploy.speculative.types import Sampling, Step
from tests.unit.server.fakes import EOS, ByteText


class Recorded:
    """A decoder of given steps: what it says of itself is what the server must tell."""

    max_context = 10_000
    block_size = 8

    def __init__(self, steps):
        self.steps = steps

    def generate(self, prompt_ids, sampling, *, speculate=True):
        yield from self.steps


def spans(steps, stops=()):
    sampling = Sampling(10_000, stop_token_ids=frozenset({EOS}))
    state = RequestState(Job("id", (1,), sampling, stops), ByteText().decode, lambda _: None)
    decoder, chunks = Recorded(steps), []
    while not chunks or chunks[-1].report is None:
        chunks.append(state.take(next(state.steps(decoder), None)))
    for chunk in chunks:
        assert "".join(span.text for span in chunk.spans) == chunk.text
    return [span for chunk in chunks for span in chunk.spans]


def told(steps, stops=()):
    """The origin of each character that was shown."""
    return [(char, span.drafted) for span in spans(steps, stops) for char in span.text]


def expected(text, steps):
    """By the steps' own record: a step's accepted tokens come first; a byte is a token here."""
    record = [i < step.accepted for step in steps for i in range(len(step.tokens))]
    ends, at = [], 0
    for char in text:
        at += len(char.encode())
        ends.append((char, record[at - 1]))
    return ends


# without U+FFFD: once it is written, nothing tells it from half a character
TEXT = st.text(st.characters(exclude_characters="\ufffd", exclude_categories=["Cs"]), min_size=1)


@st.composite
def answers(draw):
    text = draw(TEXT)
    tokens = [*text.encode(), EOS]
    cuts = sorted(draw(st.sets(st.integers(1, len(tokens)))) | {0, len(tokens)})
    blocks = [tokens[a:b] for a, b in pairwise(cuts)]
    return text, [
        Step(tuple(part), 7, draw(st.integers(0, min(7, len(part) - 1))))
        for block in blocks
        for part in (block[i : i + 8] for i in range(0, len(block), 8))
    ]


@given(answers())
def test_every_character_has_the_origin_that_the_engine_recorded(answer):
    text, steps = answer
    assert told(steps) == expected(text, steps)


@given(answers(), st.text("aé€ ", min_size=1, max_size=3))
def test_a_stop_string_holds_text_back_and_mixes_nothing_up(answer, stop):
    text, steps = answer
    shown = told(steps, (stop,))
    assert shown == expected(text, steps)[: len(shown)]
    assert len(shown) == (text.find(stop) if stop in text else len(text))


def test_a_character_of_two_steps_is_the_later_one_s():
    euro = "€".encode()
    steps = [Step((65, euro[0])), Step((euro[1], euro[2], 66), 3, 2), Step((67, EOS), 3, 1)]
    assert spans(steps) == [
        Span("A", drafted=False),
        Span("€", drafted=True),
        Span("B", drafted=False),
        Span("C", drafted=True),
    ]


def test_text_held_back_for_a_stop_string_keeps_its_origin():
    steps = [Step(tuple(b"ab"), 3, 1), Step(tuple(b"cd"), 3, 1), Step((EOS,))]
    assert spans(steps, ("bcx",)) == [
        Span("a", drafted=True),
        Span("b", drafted=False),
        Span("c", drafted=True),
        Span("d", drafted=False),
    ]


def test_half_a_character_at_the_end_is_told_too():
    steps = [Step((65,)), Step((*"é".encode(), 0xE2), 3, 2), Step((EOS,))]
    shown = [Span("A", drafted=False), Span("é", drafted=True), Span("\ufffd", drafted=False)]
    assert spans(steps) == shown


def test_a_token_that_is_shown_in_two_parts_is_one_origin_twice():
    origins = Origins()
    origins.push(drafted=True, shares=(5,))
    origins.push(drafted=False, shares=())
    assert origins.take("hel") == (Span("hel", drafted=True),)
    origins.push(drafted=True, shares=(2, 1))
    assert origins.take("lo, w") == (
        Span("lo", drafted=True),
        Span(", ", drafted=False),
        Span("w", drafted=True),
    )
