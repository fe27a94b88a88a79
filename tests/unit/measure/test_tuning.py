"""The choice of a block or a schedule: what must hold of any cells, and what it does with some."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_deploy.measure.report import Load
from dflash_deploy.measure.tuning import (
    Choice,
    Measured,
    Point,
    best_block,
    candidates,
    chosen,
    losing,
    measured,
    measured_of,
    outrun,
    plain_loads,
    settled,
    spans,
)
from dflash_deploy.schedule import fault
from tests.fakes.reports import GENTLE, report

LOADS = (1, 8, 32, 64)


def point(mean: float, spread: float = 0.05) -> Point:
    around = (mean * (1 - spread), mean * (1 + spread))
    return Point(mean, *around, *around)


points = st.builds(point, st.floats(0.2, 6), st.floats(0, 0.3))
cells: st.SearchStrategy[Measured] = st.dictionaries(
    st.sampled_from((16, 8, 4, 2)), st.dictionaries(st.sampled_from(LOADS), points), max_size=4
)
loads = st.sets(st.sampled_from(LOADS), min_size=1).map(lambda found: tuple(sorted(found)))


@given(cells, loads, st.booleans(), st.booleans())
def test_nothing_slower_than_plain_is_ever_chosen(
    found: Measured, at: tuple[int, ...], schedules: bool, rests: bool
) -> None:
    choice = chosen(found, at, schedules=schedules, rests=rests)
    if choice is None:
        return
    covered = [load for load, _ in choice.points]
    assert covered == list(at[: len(covered)])
    assert choice.up_to == (None if len(covered) == len(at) else covered[-1])
    for load, seen in choice.points:
        tokens = drafted(choice, load)
        if tokens:
            assert found[tokens + 1][load] == seen
            assert not seen.loses
        else:
            assert rests
            assert all(of[load].loses for of in found.values() if load in of)


@given(cells, loads, st.booleans())
def test_a_schedule_is_one_that_the_engine_takes(
    found: Measured, at: tuple[int, ...], rests: bool
) -> None:
    choice = chosen(found, at, schedules=True, rests=rests)
    if choice and choice.schedule:
        assert fault(choice.schedule, choice.block_size - 1) is None
        assert choice.block_size in found
        assert len({tokens for _, _, tokens in choice.schedule}) > 1


@given(cells, loads, st.booleans(), st.booleans(), st.randoms())
def test_the_order_of_the_cells_decides_nothing(
    found: Measured, at: tuple[int, ...], schedules: bool, rests: bool, random: object
) -> None:
    turned = {size: dict(reversed(of.items())) for size, of in reversed(found.items())}
    assert chosen(found, at, schedules=schedules, rests=rests) == chosen(
        turned, tuple(reversed(at)), schedules=schedules, rests=rests
    )


@given(cells, loads, points)
def test_a_schedule_that_ran_slower_somewhere_is_not_kept(
    found: Measured, at: tuple[int, ...], slow: Point
) -> None:
    tried = chosen(found, at, schedules=True, rests=True)
    if tried is None or not tried.schedule:
        return
    block = best_block(found, at)
    ran = {load: slow for load, _ in tried.points}
    kept = settled(tried, ran, block)
    assert kept == block or (kept is not None and not slow.slower)
    assert settled(tried, {}, block) == block


def drafted(choice: Choice, load: int) -> int:
    if not choice.schedule:
        return choice.block_size - 1
    return next(tokens for first, last, tokens in choice.schedule if first <= load <= last)


def test_the_long_block_at_low_load_and_the_short_one_at_high() -> None:
    choice = chosen(measured(report()), plain_loads(report()), schedules=True)
    assert choice is not None
    assert (choice.block_size, choice.up_to) == (16, None)
    assert choice.schedule == ((1, 16, 15), (17, 64, 7))
    fixed = chosen(measured(report()), plain_loads(report()))
    assert fixed is not None
    assert (fixed.block_size, fixed.schedule) == (8, ())  # 16 loses at 64


def test_where_every_block_loses_the_choice_ends_or_drafting_does() -> None:
    found = {16: {1: point(3), 64: point(0.6)}, 8: {1: point(2), 64: point(0.8)}}
    ended = chosen(found, (1, 64), schedules=True)
    assert ended == Choice(16, ((1, point(3)),), up_to=1)
    rested = chosen(found, (1, 64), schedules=True, rests=True)
    assert rested is not None
    assert rested.schedule == ((1, 8, 15), (9, 64, 0))
    slow = {16: {1: point(0.5)}}
    assert chosen(slow, (1,)) is None
    assert chosen(slow, (1,), schedules=True, rests=True) is None
    assert chosen({16: {1: point(1.0)}}, (1,)) is None  # no slower, and no gain
    assert chosen({}, (1,)) is None
    assert chosen({16: {}}, (1,), schedules=True, rests=True) is None


def test_repeats_that_swing_do_not_make_a_loss_none() -> None:
    # blocks of 8 of the H200's gpt-oss-20b: two runs at 64, each slower than plain decoding's mean
    swinging = Point(0.83, 0.70, 1.005, 0.79, 0.87)
    found = {8: {1: point(2.5), 32: Point(1.16, 0.61, 1.85, 0.68, 1.64), 64: swinging}}
    for schedules in (True, False):
        choice = chosen(found, (1, 32, 64), 8, schedules=schedules)
        assert choice
        assert (choice.block_size, choice.up_to) == (8, 32)
    rested = chosen(found, (1, 32, 64), 8, schedules=True, rests=True)
    assert rested
    assert [tokens for _, _, tokens in rested.schedule] == [7, 0]
    # by less than repeats differ anyway it is none
    even = chosen({8: {1: point(2.5), 64: point(0.97)}}, (1, 64), 8)
    assert even
    assert even.up_to is None


def test_a_block_stays_while_no_other_is_faster_beyond_the_spread() -> None:
    found = {16: {1: point(3), 8: point(2.00), 32: point(1.5)},
             8: {1: point(2), 8: point(2.05), 32: point(1.9)}}  # fmt: skip
    choice = chosen(found, (1, 8, 32), schedules=True)
    assert choice is not None
    assert choice.schedule == ((1, 16, 15), (17, 32, 7))


def test_the_entrys_own_block_stays_while_no_other_is_faster_beyond_the_spread() -> None:
    found = {16: {1: point(2.9), 8: point(1.95)}, 8: {1: point(3.0), 8: point(2.0)}}
    choice = best_block(found, (1, 8), own=16)
    assert choice is not None
    assert choice.block_size == 16
    assert choice.instead_of == best_block(found, (1, 8)) == best_block(found, (1, 8), own=4)
    for schedules in (False, True):
        assert chosen(found, (1, 8), 16, schedules=schedules) == choice
    faster = found | {8: {1: point(3.0), 8: point(2.2)}}  # at one of the loads beyond the spread
    assert best_block(faster, (1, 8), own=16) == best_block(faster, (1, 8))
    assert best_block(found, (1, 8), own=8) == best_block(found, (1, 8))  # the fastest, and own


def test_an_own_block_that_plain_decoding_beats_does_not_stay() -> None:
    found = {16: {1: point(3), 8: point(0.92)}, 8: {1: point(2.9), 8: point(0.98)}}
    choice = best_block(found, (1, 8), own=16)
    assert choice is not None
    assert (choice.block_size, choice.instead_of) == (8, None)


def test_a_schedule_begins_with_the_entrys_own_block_and_comes_back_to_it() -> None:
    found = {16: {1: point(2.9), 8: point(0.5), 32: point(2.9)},
             8: {1: point(3.0), 8: point(0.5), 32: point(3.0)}}  # fmt: skip
    choice = chosen(found, (1, 8, 32), 16, schedules=True, rests=True)
    assert choice is not None
    assert [tokens for _, _, tokens in choice.schedule] == [15, 0, 15]


def test_plain_decodings_spread_makes_no_two_blocks_alike() -> None:
    unsteady = report({"plain": {1: (80, 120)}, "dflash-16": {1: (400, 404)},
                       "dflash-8": {1: (420, 424)}})  # fmt: skip
    found = measured(unsteady)
    assert found[8][1].low < found[16][1].high
    assert found[8][1].outruns(found[16][1])
    assert not found[16][1].outruns(found[8][1])
    choice = best_block(found, (1,), own=16)
    assert choice is not None
    assert choice.block_size == 8


def test_what_a_schedule_showed_is_what_it_is_judged_by() -> None:
    tried = chosen(measured(report()), LOADS, schedules=True)
    block = best_block(measured(report()), LOADS)
    assert tried
    assert block
    ran = {1: point(4), 8: point(2.8), 32: point(1.5), 64: point(1.1)}
    kept = settled(tried, ran, block)
    assert kept is not None
    assert (kept.schedule, dict(kept.points)) == (tried.schedule, ran)
    barely = {load: point(seen.mean * 1.01) for load, seen in block.points}
    assert settled(tried, barely, block) == block
    worse = {load: point(1.01) for load in LOADS}
    assert settled(tried, worse, block) == block
    assert settled(tried, worse, None) is not None
    del ran[64]  # its server died there
    assert settled(tried, ran, block) == block


def test_a_block_that_loses_everywhere_is_dropped() -> None:
    found = {16: {1: point(3), 8: point(2)}, 8: {1: point(2), 8: point(1.9)}}
    assert not losing(8, found)  # at 8 it is within the spread
    assert losing(8, found | {8: {1: point(2), 8: point(1.2)}})
    assert losing(8, {8: {1: point(0.8)}})  # plain decoding is faster
    assert losing(8, {16: {1: point(3)}})  # it failed
    assert not losing(16, found)


def test_shorter_blocks_need_no_start_once_one_is_outrun_by_another() -> None:
    found = {16: {1: point(3), 64: point(0.5)}, 8: {1: point(2), 64: point(0.4)}}
    assert outrun(8, found)
    assert not outrun(16, found)
    assert not outrun(8, found | {8: {1: point(2), 64: point(0.6)}})  # slow, but gaining on it
    assert not outrun(8, {16: {1: point(3)}})  # it failed: that says nothing


def test_missing_cells_and_failures() -> None:
    some = report(failed={("dflash-16", 8): 80})
    assert 8 not in measured(some)[16]
    choice = chosen(measured(some), plain_loads(some))
    assert choice is not None
    assert choice.block_size == 8
    plainless = report({"plain": {1: (100, 101)}, "dflash-16": {1: (400, 404), 8: (2000,)}})
    assert plain_loads(plainless) == (1,)
    assert list(measured(plainless)[16]) == [1]


def test_of_several_workloads_the_worst_decides() -> None:
    two = report({"plain": {1: (100, 101)}, "dflash-16": {1: (400, 404)}}, workloads=("a", "b"))
    slow = msgspec.structs.replace(two.cells[-1], runs=two.cells[0].runs)
    mixed = msgspec.structs.replace(two, cells=(*two.cells[:-1], slow))
    seen = measured(mixed)[16][1]
    assert (round(seen.mean, 2), round(seen.high, 2)) == (2.0, 1.01)
    half = msgspec.structs.replace(two, cells=two.cells[:-1])
    assert measured(half)[16] == {}


def test_an_open_loop_and_a_schedule_are_no_blocks() -> None:
    arms = [msgspec.structs.replace(arm, schedule=((1, 8, 7),)) if arm.name == "dflash-8" else arm
            for arm in report().arms]  # fmt: skip
    mixed = msgspec.structs.replace(report(), arms=tuple(arms))
    assert list(measured(mixed)) == [16]
    assert set(measured_of(mixed, "dflash-8")) == set(GENTLE["plain"])
    opened = [msgspec.structs.replace(cell, load=Load(rate=2.0)) for cell in report().cells]
    assert plain_loads(msgspec.structs.replace(report(), cells=tuple(opened))) == ()


@pytest.mark.parametrize(
    ("picks", "made"),
    [
        ([(1, 15)], ((1, 1, 15),)),
        ([(1, 15), (2, 7)], ((1, 1, 15), (2, 2, 7))),
        ([(1, 15), (8, 15), (32, 7), (64, 0)], ((1, 16, 15), (17, 45, 7), (46, 64, 0))),
    ],
)
def test_ranges_divide_between_loads(
    picks: list[tuple[int, int]], made: tuple[tuple[int, int, int], ...]
) -> None:
    assert spans(picks) == made


def test_blocks_that_are_tried_unasked() -> None:
    assert candidates(16) == (16, 8, 4)
    assert candidates(10) == (10, 5)
    assert candidates(8) == (8, 4)
    assert candidates(3) == (3,)
