from __future__ import annotations

import os
import resource
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from dflash_deploy.cli.report import check_page, write_page
from dflash_deploy.errors import UsageError
from dflash_deploy.hardware import Card, Hardware
from dflash_deploy.measure.machine import this_machine
from dflash_deploy.measure.report import Arm, Cell, Load, Machine, Report, Run, Workload
from dflash_deploy.measure.results import check_writable, read, save, with_arm, with_run
from dflash_deploy.measure.turns import Turn

RUN = Run(seconds=1, requests=1, failed=0, prompt_tokens=1, output_tokens=5)
MACHINE = Machine(
    hardware=Hardware(cards=(Card("h100", "hopper", 80.0),)), system="Linux", cpu="a CPU",
    cores=8, memory_gib=64, versions={},
)  # fmt: skip
PLAIN = Arm(name="plain", method="plain", argv=("vllm", "serve"))
W = Workload(name="math", source="s", sha256="abc", prompts=4, max_tokens=64)
REPORT = Report(
    model="m", draft="d", engine="vllm", version="0.33.0", date="2026-01-01T00:00:00Z",
    command="dflash bench m", machine=MACHINE, seed=0, temperature=0, workloads=(W,),
    arms=(PLAIN,), cells=(), complete=False,
)  # fmt: skip
TURN = Turn("plain", Load(concurrency=8), "math", 0)
CELL = Cell(arm="plain", load=TURN.load, workload="math", runs=(RUN,))


def change(report, **values):
    return msgspec.structs.replace(report, **values)


def test_runs_gather_in_their_cells():
    other = msgspec.structs.replace(TURN, load=Load(rate=2.0))
    report = with_run(with_run(with_run(REPORT, TURN, RUN), other, RUN), TURN, RUN)
    assert [(str(cell.load), len(cell.runs)) for cell in report.cells] == [("c=8", 2), ("2/s", 1)]


def test_a_file_is_read_as_it_was_written_and_no_half_of_it_is_left(tmp_path):
    path = tmp_path / "bench.json"
    save(with_run(REPORT, TURN, RUN), path)
    save(REPORT, path)
    assert read(path) == REPORT
    assert [each.name for each in tmp_path.iterdir()] == ["bench.json"]
    assert path.stat().st_mode & 0o077 == 0o044


def test_an_arm_learns_how_long_it_took_to_start():
    assert with_arm(REPORT, change(PLAIN, ready_seconds=3)).arms[0].ready_seconds == 3


DEEP = b'{"schema": "dflash.bench/1", "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"


@pytest.mark.parametrize("content", [b"", b"{}", b'{"schema": "x"}', b"\xff\xfe", DEEP])
def test_what_is_no_report_is_told(tmp_path, content):
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(UsageError, match="no report"):
        read(tmp_path / "x.json")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"arms": ()}, "a cell of 'plain', which is none of its arms"),
        ({"workloads": ()}, "a cell of 'math', which is none of its workloads"),
        ({"arms": (PLAIN, PLAIN)}, "two arms called 'plain'"),
        ({"arms": (PLAIN, change(PLAIN, name="other"))}, "plain decoding twice: plain, other"),
        ({"cells": (CELL, CELL)}, "two cells of 'plain', math at c=8"),
        ({"date": "yesterday"}, "'yesterday' is no date"),
        ({"date": "2026-13-01T00:00:00Z"}, "is no date"),
    ],
)
def test_a_report_that_does_not_hold_together_is_told(tmp_path, values, said):
    save(change(with_run(REPORT, TURN, RUN), **values), tmp_path / "x.json")
    with pytest.raises(UsageError, match=said):
        read(tmp_path / "x.json")


def test_the_mark_that_some_editors_put_first_is_passed_over(tmp_path):
    save(REPORT, tmp_path / "x.json")
    (tmp_path / "x.json").write_bytes(b"\xef\xbb\xbf" + (tmp_path / "x.json").read_bytes())
    assert read(tmp_path / "x.json") == REPORT


def test_a_run_that_took_no_time_is_told(tmp_path):
    save(with_run(REPORT, TURN, change(RUN, seconds=1e-308)), tmp_path / "x.json")
    with pytest.raises(UsageError, match="a run of 'plain' took no time"):
        read(tmp_path / "x.json")


@pytest.mark.parametrize("name", ["seconds", "output_tokens", "requests"])
def test_a_run_of_less_than_nothing_is_told(tmp_path, name):
    save(with_run(REPORT, TURN, change(RUN, **{name: -1})), tmp_path / "x.json")
    with pytest.raises(UsageError, match="less than nothing"):
        read(tmp_path / "x.json")


def test_another_schema_and_no_file_are_told(tmp_path):
    save(change(REPORT, schema="dflash.bench/9"), tmp_path / "x.json")
    with pytest.raises(UsageError, match=r"dflash\.bench/9"):
        read(tmp_path / "x.json")
    with pytest.raises(UsageError, match="cannot be read"):
        read(tmp_path / "none.json")
    with pytest.raises(UsageError, match="cannot be written"):
        save(REPORT, tmp_path / "none" / "x.json")
    with pytest.raises(UsageError, match="cannot be written"):
        check_writable(tmp_path / "none" / "x.json")


def test_a_newer_schema_with_other_fields_is_called_newer(tmp_path):
    (tmp_path / "x.json").write_bytes(b'{"schema": "dflash.bench/2", "sides": []}')
    with pytest.raises(UsageError, match=r"reads dflash\.bench/1") as caught:
        read(tmp_path / "x.json")
    assert "upgrade" in (caught.value.hint or "")


def test_a_document_of_another_command_is_called_by_its_name(tmp_path):
    (tmp_path / "v.json").write_bytes(b'{"schema": "dflash.verify/1", "model": "m"}')
    with pytest.raises(UsageError, match=r"it is of dflash\.verify/1"):
        read(tmp_path / "v.json")


def test_what_would_steer_a_terminal_is_read_as_question_marks(tmp_path):
    hostile = change(REPORT, model="\x1b[2Jm\x07", verdict=("a\x9b2Jb\nc \u2013",))
    save(hostile, tmp_path / "x.json")
    found = read(tmp_path / "x.json")
    assert (found.model, found.verdict) == ("?[2Jm?", ("a?2Jb\nc \u2013",))


def test_a_folder_that_is_gone_is_told(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(UsageError, match=r"cannot be written to x\.json: No such file"):
        check_writable(Path("x.json"))


@contextmanager
def full():
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)


def test_a_full_disk_leaves_no_half_page_and_the_page_before(tmp_path):
    page = tmp_path / "page.html"
    page.write_text("the one before")
    with full(), pytest.raises(UsageError, match="cannot be written") as raised:
        write_page(page, Path("a b.json"), REPORT, [])
    assert raised.value.hint == "dflash report 'a b.json' --format html > page.html"
    assert page.read_text() == "the one before"
    assert [each.name for each in tmp_path.iterdir()] == ["page.html"]


def test_a_folder_without_room_is_told_before_minutes_are_spent(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1000))
    with pytest.raises(UsageError, match="there is no room for"):
        check_writable(tmp_path / "bench.json")


def test_nothing_but_a_file_gives_way_to_a_report(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for other in ("/dev/null", tmp_path / "pipe", tmp_path):
        with pytest.raises(UsageError, match="it is no file") as raised:
            check_writable(Path(other))
        assert raised.value.hint.startswith("--output FILE")
    (tmp_path / "round").symlink_to("round")
    for said, other in (
        ("too long", "x" * 256), ("no such folder", "pipe/x"), ("to itself", "round"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=said):
            check_writable(tmp_path / other)


def test_a_link_stays_one_and_the_report_is_where_it_leads(tmp_path):
    (tmp_path / "link").symlink_to("far/bench.json")
    with pytest.raises(UsageError, match="no such folder"):
        check_writable(tmp_path / "link")
    (tmp_path / "far").mkdir()
    check_writable(tmp_path / "link")
    save(REPORT, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert read(tmp_path / "far" / "bench.json") == REPORT


def test_a_name_as_long_as_the_disk_allows_is_written(tmp_path):
    path = tmp_path / ("x" * 250 + ".json")
    check_writable(path)
    save(REPORT, path)
    assert read(path) == REPORT


@pytest.mark.parametrize("where", ["none/page.html", "folder.html"])
def test_a_page_that_cannot_be_written_is_told_by_its_own_option(tmp_path, where):
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(UsageError) as raised:
        check_page(tmp_path / where)
    assert raised.value.hint.startswith("--report FILE")


def test_a_full_disk_keeps_the_report_before_and_nothing_beside_it(tmp_path):
    path = tmp_path / "bench.json"
    save(REPORT, path)
    much = change(REPORT, verdict=tuple(f"{line} {'x' * 1000}" for line in range(100)))
    with full(), pytest.raises(UsageError, match="cannot be written"):
        save(much, path)
    assert read(path) == REPORT
    assert [each.name for each in tmp_path.iterdir()] == ["bench.json"]


def test_no_serial_number_is_in_a_report():
    card = Card("h100", "hopper", 80.0, uuid="GPU-12345")
    machine = this_machine(Hardware(cards=(card,)), {"vllm": "0.33.0"})
    assert b"GPU-12345" not in msgspec.json.encode(machine)
    assert machine.cores >= 1
    assert machine.versions.keys() >= {"python", "dflash-deploy", "vllm"}
