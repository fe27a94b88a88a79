from dflash_deploy.measure.judged import compare, judge
from dflash_deploy.measure.lossless import Answer, Token


def answer(*words, gap=None):
    """`gap`: what `b` costs in the place of the first word."""
    top = {} if gap is None else {words[0]: -0.1, "b": -0.1 - gap}
    return Answer(" ".join(words), tuple(Token(word, -0.1, top) for word in words))


SAME = compare("1", answer("a"), answer("a"))
TIE = compare("2", answer("a", gap=0.01), answer("b"))
COSTLY = compare("3", answer("a", gap=4.0), answer("b"))
UNTOLD = compare("4", Answer("a"), Answer("b"))
ROUND = " ".join(["so"] * 20)


def test_near_ties_are_numerics_and_pass():
    found = judge([SAME, TIE])
    assert (found.exact, found.exact_rate, found.near_ties, found.passed) == (1, 0.5, (TIE,), True)


def test_a_large_regret_is_a_bug():
    found = judge([SAME, TIE, COSTLY])
    assert (found.costly, found.near_ties, found.passed) == ((COSTLY,), (TIE,), False)


def test_the_bound_is_the_users():
    assert judge([COSTLY], max_regret=5.0).passed
    assert not judge([TIE], max_regret=0.001).passed


def test_what_nobody_can_tell_does_not_pass():
    found = judge([SAME, UNTOLD])
    assert (found.untold, found.passed) == ((UNTOLD,), False)


def test_a_bound_that_is_below_what_may_be_spent_tells_nothing():
    unheard = compare("7", Answer("a", (Token("a", -0.1, {"a": -0.1}),)), answer("q"))
    assert judge([unheard]).untold == (unheard,)


def test_a_loop_counts_only_where_plain_decoding_has_none():
    ours, both = (
        compare("5", Answer("so"), Answer(ROUND)),
        compare("6", Answer(ROUND), Answer(ROUND)),
    )
    assert judge([ours, both], max_regret=99).loops == (ours,)
    assert judge([both]).passed


def test_nothing_seen_is_nothing_shown():
    assert (judge([]).passed, judge([]).exact_rate) == (False, None)
