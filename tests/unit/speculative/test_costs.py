import pytest

from dflash_deploy.speculative.costs import PLAIN_DUE, REMEMBERED, Costs


def filled():
    costs = Costs((4, 8))
    for drafted, seconds in ((3, 3.0), (0, 2.0), (7, 5.0)):
        costs.add(drafted, seconds)
    return costs


def test_a_cycle_is_told_in_plain_steps():
    assert [filled().relative(drafted) for drafted in (1, 3, 4, 7)] == [1.5, 1.5, 2.5, 2.5]


def test_nothing_known_is_a_draft_that_costs_nothing():
    costs = Costs((4, 8))
    assert costs.relative(3) == costs.relative(3, first=True) == 1
    costs.add(3, 5.0)
    costs.add(7, 5.0)
    assert costs.relative(3) == 1


def test_one_pause_of_the_machine_says_nothing():
    costs = filled()
    for seconds in (3.0, 900.0, 3.0):
        costs.add(0, 2.0)
        costs.add(3, seconds)
    assert costs.relative(3) == 1.5


def test_a_machine_that_is_slower_for_long_changes_nothing():
    costs = filled()
    for _ in range(3 * REMEMBERED):
        costs.add(3, 30.0)
    assert costs.relative(3) == 1.5
    for _ in range(3):
        costs.add(0, 20.0)
    assert costs.relative(3) == 1.5


def test_a_draft_that_became_dearer_is_noticed():
    costs = filled()
    for _ in range(REMEMBERED):
        costs.add(0, 2.0)
        costs.add(3, 8.0)
    assert costs.relative(3) == 4


def test_the_first_measurement_stays():
    costs = filled()
    costs.keep_first()
    for _ in range(REMEMBERED):
        costs.add(0, 2.0)
        costs.add(3, 8.0)
    assert (costs.relative(3), costs.relative(3, first=True)) == (4, 1.5)


def test_a_block_cut_short_by_the_end_of_an_answer_tells_nothing():
    costs = filled()
    costs.add(0, 2.0)
    costs.add(2, 100.0)
    assert costs.relative(2) == costs.relative(3) == 1.5


def test_a_plain_step_is_due_again_after_many_cycles():
    costs = filled()
    for _ in range(PLAIN_DUE - 2):
        costs.add(7, 5.0)
    assert not costs.plain_is_due
    costs.add(7, 5.0)
    assert costs.plain_is_due
    costs.add(0, 2.0)
    assert not costs.plain_is_due


@pytest.mark.parametrize("widths", [(4,), (4, 8)])
def test_counts_above_every_width_cost_nothing_known(widths):
    assert Costs(widths).relative(30) == 1


def test_a_pass_of_several_between_two_is_no_comparison():
    costs = Costs((4, 8))
    costs.add(0, 1.0)
    costs.interrupted()
    costs.add(3, 5.0)
    assert costs.relative(3) == 1.0


def test_who_shares_passes_is_due_no_plain_step():
    costs = Costs((4, 8))
    for _ in range(PLAIN_DUE):
        costs.add(3, 1.0)
    assert costs.plain_is_due
    costs.interrupted()
    assert not costs.plain_is_due
