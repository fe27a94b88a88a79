from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_deploy.errors import UsageError
from dflash_deploy.measure.synthetic import (
    chance,
    length_of,
    made_up,
    published_length,
    rates,
)
from dflash_deploy.registry import load
from dflash_deploy.schema import Measurement


@pytest.fixture(scope="module")
def qwen():
    entry = load(user=False).find("qwen3-8b")
    return entry.model, entry.model.drafts[0]


@given(st.integers(1, 31), st.floats(0, 1))
def test_the_rates_yield_the_length_they_were_made_for(drafted, share):
    length = 1 + share * drafted
    assert length_of(rates(chance(length, drafted), drafted)) == pytest.approx(length, abs=1e-4)


@given(st.integers(2, 31), st.floats(0.01, 0.99))
def test_rates_fall_and_a_shorter_block_accepts_less(drafted, share):
    one = chance(1 + share * drafted, drafted)
    long, short = rates(one, drafted), rates(one, drafted // 2)
    assert list(long) == sorted(long, reverse=True)
    assert long[: len(short)] == short
    assert length_of(short) <= length_of(long)


def test_the_formula_of_the_docs():
    """Each place is accepted where all before it are, each with the same chance."""
    assert rates(0.5, 4) == (0.5, 0.25, 0.125, 0.0625)
    assert chance(1 + 0.5 + 0.25 + 0.125, 3) == pytest.approx(0.5)
    # what docs/benchmark.md measured with: 6.71 tokens a cycle at a block of 16, 5.10 at 8
    one = chance(6.71, 15)
    assert rates(one, 15)[:3] == pytest.approx((0.866, 0.750, 0.649), abs=1e-3)
    assert length_of(rates(one, 7)) == pytest.approx(5.10, abs=0.005)


def test_the_extremes():
    assert rates(chance(1, 7), 7) == (0.0,) * 7
    assert rates(chance(8, 7), 7) == (1.0,) * 7
    for length in (0.9, 8.1):
        with pytest.raises(UsageError, match="cannot yield"):
            chance(length, 7)


def test_a_length_is_for_the_drafts_own_block(qwen):
    found = made_up("6.5", [16, 8], *qwen)
    assert length_of(found[16]) == pytest.approx(6.5, abs=1e-4)
    assert 4 < length_of(found[8]) < 6.5


def test_the_published_length_is_a_mean_over_tasks(qwen):
    seen = published_length(*qwen)
    assert 3 < seen < 9
    assert length_of(made_up("PUBLISHED", [16], *qwen)[16]) == pytest.approx(seen, abs=1e-4)


def test_an_average_that_somebody_published_is_taken_as_it_is(qwen):
    # 6.49 greedy; not the 5.48 at temperature 1, nor the tasks that are on record twice
    assert published_length(*qwen) == 6.49


def test_without_one_each_task_counts_once(qwen):
    model, draft = qwen
    rows = [("gsm8k", 1, 4.0), ("gsm8k", 32, 4.0), ("math500", 1, 6.0)]
    results = [Measurement(task=t, concurrency=c, acceptance_length=a) for t, c, a in rows]
    seen = msgspec.structs.replace(model.evidence[0], results=results)
    made = msgspec.structs.replace(seen, outcome="synthetic")
    warm = msgspec.structs.replace(seen, temperature=1.0, results=results[2:])
    model = msgspec.structs.replace(model, evidence=[seen, made, warm])
    assert published_length(model, draft) == 5.0


def test_rates_as_given_are_cut_for_a_shorter_block(qwen):
    assert made_up("0.8,0.6,0.4", [4, 2], *qwen) == {4: (0.8, 0.6, 0.4), 2: (0.8,)}


@pytest.mark.parametrize("said", ["0.5,0.6", "1.5,1", "much", "0.5,x", "0.9,0.8"])
def test_what_is_no_acceptance_is_told(qwen, said):
    with pytest.raises(UsageError):
        made_up(said, [16], *qwen)
