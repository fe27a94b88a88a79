import itertools

import pytest

from dflash_deploy.speculative.costs import PLAIN_DUE, Costs
from dflash_deploy.speculative.pace import Steady, Thrifty, Trial, fitting

PLAIN, NARROW, WIDE = 1.0, 1.4, 1.6
WIDTHS = (4, 8)
SECONDS = {0: PLAIN, 3: NARROW, 7: WIDE}


def known(narrow=NARROW):
    costs = Costs(WIDTHS)
    compare(costs, narrow, WIDE)
    costs.keep_first()
    return costs


def compare(costs, narrow, wide):
    for drafted, seconds in ((3, narrow), (0, PLAIN), (7, wide), (0, PLAIN)):
        costs.add(drafted, seconds)


def decode(pace, committed, total, drafted=3):
    """Steps to `total` tokens with a draft of which `committed` tokens a cycle hold, in turns."""
    holds = itertools.cycle(committed)
    kinds, seconds, tokens = [], 0.0, 0
    while tokens < total:
        found = pace.drafts()
        count, taken = (next(holds), drafted) if found else (1, 0)
        pace.spent(taken, count, SECONDS[taken])
        kinds.append(found)
        seconds += SECONDS[taken]
        tokens += count
    return kinds, seconds / (tokens * PLAIN)


@pytest.mark.parametrize("committed", [[1], [1, 1, 2], [1, 1, 1, 1, 1, 1, 4]])
def test_a_losing_draft_costs_three_percent_at_most(committed):
    kinds, relative = decode(Thrifty(known(), repeatable=False), committed, 100)
    assert relative < 1.03
    assert any(kinds[len(kinds) // 2 :])  # it tries again now and then


def test_even_a_draft_that_is_always_wrong_and_dear():
    kinds, _ = decode(Thrifty(known(narrow=2.5), repeatable=True), [1], 200)
    assert 1 <= kinds.count(True) * 1.5 < 1.5 + 0.02 * 200


@pytest.mark.parametrize("committed", [[2], [1, 3], [4, 1, 1, 1, 3]])
def test_a_winning_draft_goes_on(committed):
    kinds, _ = decode(Thrifty(known(), repeatable=False), committed, 60)
    assert all(kinds)


def test_what_begins_badly_recovers():
    pace = Thrifty(known(), repeatable=False)
    kinds, _ = decode(pace, [1], 20)
    assert not all(kinds)
    kinds, _ = decode(pace, [4], 100)
    assert all(kinds[-15:])


def test_gains_are_not_saved_for_ever():
    pace = Thrifty(known(), repeatable=False)
    decode(pace, [4], 1000)
    kinds, relative = decode(pace, [1], 150)
    assert relative < 1.06
    assert kinds[:30].count(True) < 13


def test_the_cost_of_a_plain_step_is_measured_again_now_and_then():
    kinds, _ = decode(Thrifty(known(), repeatable=False), [4], 4 * (PLAIN_DUE + 20))
    assert kinds.count(False) == 1


def test_a_seeded_answer_goes_by_what_was_known_first():
    costs = known()
    for _ in range(20):
        compare(costs, 9.0, 9.0)  # other requests have much longer texts
    seeded, free = (Thrifty(costs, repeatable=repeatable) for repeatable in (True, False))
    for pace in (seeded, free):
        pace.spent(3, 1, 9.0)
    assert seeded.drafts()
    assert not free.drafts()


def test_a_cost_that_was_measured_wrong_is_measured_again():
    costs = known(narrow=50.0)
    for _ in range(6):  # answers
        decode(Thrifty(costs, repeatable=False), [4], 40)
    kinds, _ = decode(Thrifty(costs, repeatable=False), [4], 40)
    assert all(kinds)


def test_nothing_known_is_drafted():
    assert Thrifty(Costs(WIDTHS), repeatable=False).drafts()


def test_a_trial_makes_every_kind_in_turn():
    costs = Costs(WIDTHS)
    pace = Trial(costs)
    kinds = []
    for _ in range(6):
        drafted = pace.checks([0.5] * 4, WIDTHS, 30) if pace.drafts() else 0
        kinds.append(drafted)
        pace.spent(drafted, 1, SECONDS[drafted])
    assert kinds == [0, 3, 7, 0, 3, 7]
    assert (costs.relative(3), costs.relative(7)) == (NARROW, WIDE)


@pytest.mark.parametrize(
    ("widths", "limit", "wide", "count"),
    [
        ((4, 8), 30, True, 7),
        ((4, 8), 30, False, 3),
        ((4, 8), 7, True, 7),
        ((4, 8), 6, True, 3),
        ((4, 8), 2, True, 2),
        ((8,), 30, False, 7),
        ((8,), 3, True, 3),
    ],
)
def test_what_is_checked_fits_the_limit(widths, limit, wide, count):
    assert fitting(widths, limit, wide=wide) == count


def test_steady_always_drafts_and_checks_all_where_the_draft_is_sure():
    pace = Steady()
    pace.spent(7, 1, 100.0)
    assert pace.drafts()
    assert pace.checks([0.9] * 4, WIDTHS, 30) == 7
    assert pace.checks([0.5] * 4, WIDTHS, 30) == 3
