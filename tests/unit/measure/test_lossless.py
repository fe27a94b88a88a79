"""Divergences, what they cost, loops, and whether two samples are of one distribution."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_deploy.measure.lossless import (
    NEAR_TIE,
    Answer,
    Token,
    combined,
    first_divergence,
    loops,
    same_distribution,
)


def answer(*words: str, **top: float) -> Answer:
    tokens = [Token(word, -0.1, {word: -0.1, **top}) for word in words]
    return Answer("".join(words), tuple(tokens))


def test_the_same_answer_has_no_divergence():
    assert first_divergence(answer("a", "b"), answer("a", "b")) is None


@pytest.mark.parametrize(("other", "regret", "near"), [(-0.3, 0.2, True), (-3.1, 3.0, False)])
def test_the_first_difference_and_what_it_cost(other, regret, near):
    seen = first_divergence(answer("a", "b", "c", x=other), answer("a", "x", "y"))
    assert (seen.position, seen.plain, seen.dflash) == (1, "b", "x")
    assert (seen.within(NEAR_TIE), seen.at_least) == (near, False)
    assert seen.regret == pytest.approx(regret)


def test_a_token_that_was_not_among_the_likeliest_costs_at_least_as_much_as_the_last_of_them():
    seen = first_divergence(answer("a", z=-9.0), answer("q"))
    assert (seen.regret, seen.at_least) == (pytest.approx(8.9), True)
    assert (seen.within(0.5), seen.within(9.5)) == (False, None)  # 9.5 or more: who knows


def test_the_one_token_that_is_told_says_nothing_of_another():
    seen = first_divergence(answer("a"), answer("q"))
    assert (seen.regret, seen.within(0.5)) == (0.0, None)


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("a b c", None),
        ("a x c", (1, " b", " x", 2.0)),
        ("a xy", (1, " b", " xy", 3.0)),  # the longest that fits
        ("a q", (2, "b c", "q", None)),  # none that fits is among the likeliest
        ("a b c d", (3, "<end>", " d", 0.5)),
        ("a b", (3, " c", "", None)),
    ],
)
def test_a_text_without_tokens_is_read_along_plain_decodings(said, found):
    plain = Answer("a b c", (
        Token("a", -0.1, {"a": -0.1, "b": -0.2}),
        Token(" b", -1.0, {" b": -1.0, " x": -3.0, " xy": -4.0}),
        Token(" c", -1.0, {" c": -1.0}),
        Token("<end>", -1.0, {"<end>": -1.0, " d": -1.5}),
    ))  # fmt: skip
    seen = first_divergence(plain, Answer(said))
    assert (seen and (seen.position, seen.plain, seen.dflash, seen.regret)) == found


def test_tokens_that_a_text_leaves_out_are_not_guessed_at():
    tokens = (
        Token("<think>", -0.1, {"<think>": -0.1, "so": -0.2}),
        Token("so", -0.1),
        Token("x", -0.1),
    )
    seen = first_divergence(Answer("sowx", tokens), Answer("sowy"))
    assert (seen.position, seen.regret) == (3, None)


def test_a_server_without_log_probabilities_is_compared_by_its_text():
    seen = first_divergence(Answer("one two"), Answer("one too"))
    assert (seen.position, seen.regret, seen.within(99)) == (5, None, None)


@pytest.mark.parametrize("ends_first", ["plain", "dflash"])
def test_an_answer_that_ends_early_is_a_divergence(ends_first):
    short, long = answer("a"), answer("a", "b")
    pair = (short, long) if ends_first == "plain" else (long, short)
    seen = first_divergence(*pair)
    assert (seen.position, seen.plain, seen.dflash) == (
        (1, "", "b") if ends_first == "plain" else (1, "b", "")
    )


@given(st.lists(st.sampled_from("abc"), max_size=8), st.lists(st.sampled_from("abc"), max_size=8))
def test_what_stands_before_a_divergence_is_shared(ours, theirs):
    seen = first_divergence(answer(*ours), answer(*theirs))
    if not ours or not theirs:
        assert (seen is None) == (ours == theirs)
    elif seen is None:
        assert ours == theirs
    else:
        assert ours[: seen.position] == theirs[: seen.position]
        assert ours[seen.position : seen.position + 1] != theirs[seen.position : seen.position + 1]


@pytest.mark.parametrize(
    ("text", "looping"),
    [("no " * 20, True), ("I think that " * 16, True), ("I think that " * 9, False),
     ("one two three four " * 3, False), ("", False), (" ".join(map(str, range(200))), False)],
)  # fmt: skip
def test_an_answer_that_goes_round_in_circles_is_seen(text, looping):
    assert loops("It began well. " + text) == looping


def sample(chance: random.Random, weights: tuple[float, ...], count: int) -> list[tuple[str, ...]]:
    return [tuple(chance.choices("abcd", weights, k=4)) for _ in range(count)]


def test_samples_of_one_distribution_are_not_told_apart_more_often_than_chance():
    chance = random.Random(1)
    even = (4, 3, 2, 1)
    found = [
        same_distribution(sample(chance, even, 30), sample(chance, even, 30), seed=n, rounds=99)
        for n in range(40)
    ]
    assert 0 <= sum(p <= 0.05 for p in found) <= 6


def test_samples_of_two_distributions_are_told_apart():
    chance = random.Random(2)
    ours, theirs = sample(chance, (4, 3, 2, 1), 64), sample(chance, (1, 2, 3, 4), 64)
    assert same_distribution(ours, theirs, seed=0) <= 0.001


def test_what_is_plainly_the_same_is_not_looked_into_for_long():
    chance = random.Random(3)
    ours, theirs = sample(chance, (4, 3, 2, 1), 8), sample(chance, (4, 3, 2, 1), 8)
    assert same_distribution(ours, theirs, seed=0, rounds=10**9) > 0.05


@given(st.lists(st.floats(0.001, 1), max_size=9))
def test_one_p_value_of_several_is_no_smaller_than_the_least(values):
    assert combined(values) >= min(values, default=1.0)
    assert combined(values) <= 1
