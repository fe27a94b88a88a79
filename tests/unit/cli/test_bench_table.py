"""The table of a benchmark: what its cells say, and that it fits 80 columns."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from dflash_deploy.cli import _bench_table
from dflash_deploy.cli._bench_setup import whole_numbers
from dflash_deploy.cli._going_on import to_resume
from dflash_deploy.errors import UsageError
from dflash_deploy.measure.record import published_for
from dflash_deploy.measure.report import Load
from dflash_deploy.registry import load
from tests.fakes.reports import GENTLE, report

KNOWN = published_for(load(user=False).find("qwen3-8b"), None)


def shown(a_report, capsys, known=()) -> list[str]:
    _bench_table.show(a_report, known)
    return capsys.readouterr().out.splitlines()


def test_a_row_an_arm_and_load_lightest_load_first(capsys):
    lines = shown(report(), capsys)
    rows = [line.split() for line in lines[3:15]]
    assert [row[:2] for row in rows[:4]] == [
        ["1", "plain"], ["1", "dflash-16"], ["1", "dflash-8"], ["8", "plain"],
    ]  # fmt: skip
    # 402 over 100, half a percent to either side
    assert rows[1][2:5] == ["402", "0.5%", "4.02x"]
    assert rows[1][-2] == "6.50"
    assert "FAILED" not in lines[2]


def test_a_source_is_named_only_where_its_figures_stand(capsys):
    sparse = report({"plain": {3: (100, 101)}, "dflash-16": {3: (400, 404)}})
    assert "RECORD" not in "".join(shown(sparse, capsys, KNOWN))
    begun = report({"plain": {1: (100, 101)}, "dflash-16": {}})
    assert "RECORD" not in "".join(shown(begun, capsys, KNOWN))
    assert "RECORD: published" in "".join(shown(report(), capsys, KNOWN))


@pytest.mark.parametrize("failed", [None, {("plain", 1): 3}])
def test_it_fits_80_columns_on_a_terminal(capsys, monkeypatch, failed):
    monkeypatch.setattr("dflash_deploy.cli._output.on_screen", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    lines = shown(report(failed=failed), capsys, KNOWN)
    assert lines[2].startswith("LOAD  ARM")
    assert "RECORD" in lines[2]
    assert "P99" not in lines[2]
    assert max(map(len, lines)) <= 80
    assert ("FAILED" in lines[2]) == bool(failed)
    below = " ".join(lines[15:]).partition("dflash-16, accepted")[0]
    assert "E2E" not in below.partition("no room for ")[0]
    assert "no room for E2E, P99, STEP" in below


def test_long_names_and_loads_leave_the_record_out_before_the_table(capsys, monkeypatch):
    monkeypatch.setattr("dflash_deploy.cli._output.on_screen", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    speeds = {"plain": {1: (100, 101)}, "dflash-16": {1: (11400, 11404)}}
    made = report(speeds)
    arms = (made.arms[0], msgspec.structs.replace(made.arms[1], name="dflash-16-schedule"))
    other = msgspec.structs.replace(made.cells[1], arm="dflash-16-schedule")
    arrives = msgspec.structs.replace(other, load=Load(rate=12.5))
    cells = (made.cells[0], other, arrives)
    lines = shown(msgspec.structs.replace(made, arms=arms, cells=cells), capsys, KNOWN)
    assert lines[2].split()[:5] == ["LOAD", "ARM", "TOK/S", "±", "GAIN"]
    assert "no room for RECORD, E2E, P99, STEP" in " ".join(lines)
    assert "RECORD: " not in " ".join(lines)
    assert max(map(len, lines)) <= 80


def test_columns_are_told_that_are_there(capsys):
    assert "E2E, P99: seconds for an answer" in " ".join(shown(report(), capsys))
    alone = " ".join(shown(report({"dflash-16": {1: (400, 404)}}), capsys))
    assert "GAIN" not in alone
    assert "TTFT, TPOT: milliseconds" in alone


def test_made_up_acceptance_is_said_first_and_disobedience_last(capsys):
    made_up = report(synthetic=6.5)
    _bench_table.show(made_up, [])
    captured = capsys.readouterr()
    assert captured.out.startswith("\nmixed (SYNTHETIC acceptance)\n")
    # 5.0 was counted of the arm with a block of 8, 6.5 of the other
    assert "dflash-8 was to make up 6.50 tokens a cycle, and 5.00 were counted" in captured.err
    assert "dflash-16 was to" not in captured.err


def test_workloads_have_a_table_each_and_places_a_line(capsys):
    lines = shown(report(workloads=("math", "code")), capsys)
    assert (lines[1], "code" in lines) == ("math", True)
    assert sum(line.startswith("LOAD") for line in lines) == 2
    assert "dflash-8, accepted by place, %: 90 81 73 66 59 53 48" in lines
    assert lines[-1] == f"prefix cache: 0 of {2 * 25 * 20000} prompt tokens"


def test_an_open_loop_stands_below_the_closed_ones(capsys):
    whole = report()
    cell = msgspec.structs.replace(whole.cells[0], load=Load(rate=0.5))
    with_rate = msgspec.structs.replace(whole, cells=(cell, *whole.cells))
    rows = shown(with_rate, capsys)[3:16]
    assert rows[-1].startswith("0.5 req/s  plain")


def test_answers_of_half_an_hour_are_told_in_seconds(capsys):
    slow = report({"plain": {1: (0.3,)}})
    (row,) = shown(slow, capsys)[3:4]
    assert "e+" not in row
    assert row.split()[-2:] == ["1587", "3016"]


def test_a_run_that_answered_nothing_has_no_times(capsys):
    whole = report({"plain": GENTLE["plain"]})
    run = msgspec.structs.replace(
        whole.cells[0].runs[0], requests=0, failed=9, output_tokens=0, ttft=None, tpot=None,
        latency=None, prompt_tokens=0,
    )  # fmt: skip
    cells = (msgspec.structs.replace(whole.cells[0], runs=(run,)),)
    row = shown(msgspec.structs.replace(whole, cells=cells), capsys)[3].split()
    assert row == ["1", "plain", "failing", "9"]


@pytest.mark.parametrize("said", ["", " , ", "1,x", "0", "-1", "٣", "99999999"])
def test_numbers_that_are_none(said):
    with pytest.raises(UsageError):
        whole_numbers("--concurrency", said)


def test_the_hint_of_block_sizes_names_blocks_that_a_draft_has():
    with pytest.raises(UsageError) as slip:
        whole_numbers("--block-sizes", "")
    assert slip.value.hint == "--block-sizes 8,4"


def test_numbers_are_taken_once_in_their_order():
    assert whole_numbers("--concurrency", "8, 1,8,32") == (8, 1, 32)
    assert whole_numbers("--concurrency", None) == ()


@pytest.mark.parametrize(
    ("typed", "again"),
    [
        ("bench m --seed 1", "dflash bench m --seed 1 --resume f.json"),
        ("bench m --resume old.json", "dflash bench m --resume f.json"),
        ("bench m --resume=old.json -- --x 1", "dflash bench m --resume f.json -- --x 1"),
        ("bench m --url http://a:b@h", "dflash bench m --url http://h --resume f.json"),
    ],
)
def test_the_command_that_goes_on(monkeypatch, typed, again):
    monkeypatch.setattr("sys.argv", ["dflash", *typed.split()])
    assert to_resume(Path("f.json")) == again
