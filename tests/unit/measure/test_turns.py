from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_deploy.measure.report import Arm, Cell, Load, Run
from dflash_deploy.measure.turns import arrivals, turns

ARMS = (Arm(name="plain", method="plain"), Arm(name="dflash-16", method="dflash"))
LOADS = (Load(concurrency=1), Load(concurrency=8))
RUN = Run(seconds=1, requests=1, failed=0, prompt_tokens=1, output_tokens=1)


def test_every_cell_gets_its_repeats_and_arms_take_turns():
    found = list(turns(ARMS, LOADS, ["math"], 2))
    assert len(found) == len(set(found)) == 8
    assert [turn.arm for turn in found[:2]] == ["plain", "dflash-16"]
    assert [turn.arm for turn in found[4:6]] == ["dflash-16", "plain"]
    assert [turn.repeat for turn in found] == [0] * 4 + [1] * 4


def test_what_is_done_is_not_done_again():
    cell = Cell(arm="plain", load=LOADS[0], workload="math", runs=(RUN,))
    left = list(turns(ARMS, LOADS, ["math"], 2, [cell]))
    assert len(left) == 7
    mine = [t.repeat for t in left if t.arm == "plain" and t.load == LOADS[0]]
    assert mine == [1]


@given(st.floats(0.1, 1000), st.integers(2, 200), st.text(max_size=8))
def test_arrivals_are_in_order_and_the_same_for_a_seed(rate, count, seed):
    found = arrivals(rate, count, seed)
    assert len(found) == count
    assert found[0] == 0
    assert all(one <= other for one, other in pairwise(found))
    assert found == arrivals(rate, count, seed)


def test_the_rate_of_arrivals_is_the_rate_asked():
    found = arrivals(20.0, 5000, "7")
    assert len(found) / found[-1] == pytest.approx(20, rel=0.05)
    gaps = [later - earlier for earlier, later in pairwise(found)]
    mean = sum(gaps) / len(gaps)
    spread = (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5
    assert spread == pytest.approx(mean, rel=0.1)  # of an exponential they are equal
