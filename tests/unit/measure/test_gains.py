from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dflash_deploy.measure.gains import (
    acceptance,
    by_position,
    gains,
    in_figures,
    loads,
    middle,
    rate,
    tokens_per_step,
    undrafted,
)
from dflash_deploy.measure.report import Cell, Speculation
from tests.fakes.reports import Speeds, report, resting

REPEATS = st.lists(st.floats(10, 10_000), min_size=1, max_size=4).map(tuple)


def states(speeds: Speeds) -> list[str]:
    return [gain.state for gain in gains(report(speeds))]


def test_a_gain_is_of_means_and_bounded_by_the_repeats() -> None:
    (gain,) = gains(report({"plain": {1: (100, 120)}, "dflash-16": {1: (300, 360)}}))
    assert gain.mean == pytest.approx(330 / 110)
    assert (gain.low, gain.high) == pytest.approx((300 / 120, 360 / 100))
    assert gain.rate.spread == pytest.approx(30 / 330)


def test_what_is_within_the_spread_is_no_gain() -> None:
    assert states({"plain": {1: (100, 120)}, "dflash-16": {1: (115, 130)}}) == ["even"]
    assert states({"plain": {1: (100, 110)}, "dflash-16": {1: (115, 130)}}) == ["gains"]
    assert states({"plain": {1: (100, 120)}, "dflash-16": {1: (80, 90)}}) == ["loses"]


def test_what_ran_once_has_to_be_clearer() -> None:
    assert states({"plain": {1: (100,)}, "dflash-16": {1: (108,)}}) == ["even"]
    assert states({"plain": {1: (100,)}, "dflash-16": {1: (112,)}}) == ["gains"]


@given(REPEATS, REPEATS)
def test_no_gain_without_every_repeat_faster(
    plain: tuple[float, ...], own: tuple[float, ...]
) -> None:
    (gain,) = gains(report({"plain": {1: plain}, "dflash-16": {1: own}}))
    assert gain.low <= gain.mean * (1 + 1e-9)
    assert gain.mean <= gain.high * (1 + 1e-9)
    if gain.state == "gains":
        assert min(own) > max(plain)
    if gain.state == "loses":
        assert max(own) < min(plain)


def test_a_server_in_trouble_has_no_rate() -> None:
    few = report(failed={("dflash-16", 8): 1})
    many = report(failed={("dflash-16", 8): 9})
    cells = [cell for cell in many.cells if (cell.arm, str(cell.load)) == ("dflash-16", "c=8")]
    assert rate(cells[0]) is None
    assert len(gains(many)) == len(gains(report())) - 1
    assert len(gains(few)) == len(gains(report())) - 1  # one in 85 is over one in a hundred


def test_without_plain_decoding_there_is_nothing_to_gain_over() -> None:
    assert gains(report({"dflash-16": {1: (100, 100)}})) == []


def test_acceptance_counts_cycles_and_not_runs() -> None:
    found = report()
    cells = [cell for cell in found.cells if cell.arm == "dflash-16"]
    assert acceptance(cells) == pytest.approx(6.5)
    assert acceptance(cell for cell in found.cells if cell.arm == "plain") is None
    assert by_position(cells)[:2] == pytest.approx((0.9, 0.81))
    assert by_position([]) == ()
    assert tokens_per_step(cells) == pytest.approx((40000 - 84) / (40000 / 6.5))


def test_what_came_without_a_draft_is_no_cycles_worth() -> None:
    found = resting(report(), "dflash-16", 64)
    cells = [cell for cell in found.cells if cell.arm == "dflash-16"]
    last = [cell for cell in cells if cell.load.concurrency == 64]
    assert undrafted(last) == pytest.approx(1, abs=0.001)
    assert tokens_per_step(last) == pytest.approx(1, abs=0.001)
    assert acceptance(last) is None
    assert acceptance(cells) == pytest.approx(6.5)
    assert undrafted(cell for cell in cells if cell not in last) == 0
    never = resting(report({"dflash-16": {64: (2400,)}}), "dflash-16", 64, cycles=0)
    assert undrafted(never.cells) == 1
    assert tokens_per_step(never.cells) is None
    assert undrafted(cell for cell in found.cells if cell.arm == "plain") == 0


def test_shorter_drafts_are_silent_of_the_places_behind() -> None:
    def cell(load: int, drafted: int, *shares: float) -> Cell:
        counted = Speculation(drafts=100, draft_tokens=100 * drafted, accepted=100 * sum(shares),
                              per_position=shares)  # fmt: skip
        (of_load,) = report({"dflash-8": {load: (100,)}}).cells
        runs = tuple(replace(run, speculation=counted) for run in of_load.runs)
        return replace(of_load, runs=runs)

    scheduled = [cell(1, 4, 0.6, 0.4, 0.3, 0.2), cell(8, 2, 0.4, 0.2, 0.0, 0.0)]
    assert by_position(scheduled) == pytest.approx((0.5, 0.3, 0.3, 0.2))
    assert by_position(scheduled[1:]) == pytest.approx((0.4, 0.2, 0, 0))


def test_loads_go_up() -> None:
    assert [str(load) for load in loads(report().cells)] == ["c=1", "c=8", "c=32", "c=64"]


def test_the_middle_repeat_stands_for_its_cell_and_of_two_the_slower() -> None:
    def speed(*speeds: float) -> float:
        (cell,) = report({"plain": {1: speeds}}).cells
        return round(middle(cell).tokens_per_second)

    assert [speed(5), speed(9, 5), speed(9, 5, 7), speed(1, 2, 3, 4)] == [5, 5, 7, 2]


def test_slow_speeds_keep_a_decimal() -> None:
    assert (in_figures(4.94), in_figures(402.4)) == ("4.9", "402")
