"""What is printed, where, and how it looks to a pipe and to a terminal."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from dflash_deploy.cli import _output
from dflash_deploy.cli._waiting import Waiting
from dflash_deploy.errors import DFlashError, Unsupported


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_an_error_is_a_line_its_evidence_and_a_hint(capsys):
    _output.error(Unsupported("no room", hint="--context 4096", detail="last line"), as_json=False)
    seen = capsys.readouterr()
    assert seen.out == ""
    assert seen.err == "error: no room\n\nlast line\n\nhint: --context 4096\n"


def test_an_error_as_json_is_one_document_on_stdout(capsys):
    _output.error(Unsupported("no room", hint="less"), as_json=True)
    assert json.loads(capsys.readouterr().out) == {
        "error": {"code": "unsupported", "message": "no room", "hint": "less", "detail": None}
    }


def test_an_error_that_stdout_has_no_room_for_is_told_on_stderr(monkeypatch, capsys):
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stdout", full)
        _output.error(Unsupported("no room", hint="less"), as_json=True)
    assert capsys.readouterr().err == "error: no room\n\nhint: less\n"


@pytest.mark.parametrize("letters", ["ascii", "latin-1", "utf-8"])
def test_a_narrow_encoding_still_gets_json(monkeypatch, letters):
    kept = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(kept, letters))
    _output.spell_out()
    _output.json({"said": ["caf\xe9 \u65e5 \U0001f600", 1.5]})
    assert json.loads(kept.getvalue()) == {"said": ["caf\xe9 \u65e5 \U0001f600", 1.5]}


@pytest.mark.parametrize(("terminal", "draws"), [("xterm", True), ("dumb", False)])
def test_a_wait_is_drawn_where_a_line_can_be_drawn_over(monkeypatch, terminal, draws):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", terminal)
    with Waiting(alone=True) as waiting:
        for second in range(2):
            waiting("loading", second)
    assert ("\x1b[" in screen.getvalue()) is draws
    assert draws or screen.getvalue() == "loading ...\n"


def test_a_table_in_a_pipe_is_aligned_plain_text(capsys):
    columns = (_output.Column("A"), _output.Column("N", right=True))
    _output.table(columns, [("one", "1"), ("two", "22")])
    assert capsys.readouterr().out == "A     N\none   1\ntwo  22\n"


def test_a_table_without_rows_is_its_header(capsys):
    _output.table((_output.Column("A"),), [])
    assert capsys.readouterr().out == "A\n"


def test_square_brackets_are_text_on_a_terminal(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "dumb")
    _output.table((_output.Column("A"),), [("[[1, 2]]",)])
    assert "[[1, 2]]" in screen.getvalue()


@pytest.mark.parametrize(("no_colour", "painted"), [("", True), ("1", False)])
def test_colour_only_on_a_terminal_that_wants_it(monkeypatch, no_colour, painted):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    if no_colour:
        monkeypatch.setenv("NO_COLOR", no_colour)
    _output.warning("careful")
    assert ("\x1b[" in screen.getvalue()) is painted
    assert "careful" in screen.getvalue()


def test_a_paragraph_is_broken_between_words_on_a_terminal_alone(monkeypatch, capsys):
    _output.paragraph("word " * 40)
    assert capsys.readouterr().out.count("\n") == 1
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("COLUMNS", "30")
    _output.paragraph("word " * 40, indent=2)
    lines = screen.getvalue().splitlines()
    assert len(lines) > 5
    assert all(line.startswith("  word") and len(line) <= 30 for line in lines)


def test_an_error_steers_no_terminal(capsys) -> None:
    said = "no model `a\x1b[31mb\x9b\x07`"
    _output.error(DFlashError(said, hint="x\x1b]0;t\x07", detail="a\n\tb\x1b[0m"), as_json=False)
    _output.warning(said)
    err = capsys.readouterr().err
    assert "no model `ab??`" in err
    assert "a\n\tb\n" in err
    assert not {"\x1b", "\x07", "\x9b"} & set(err)
