"""How tables and sentences fit terminals of every width, and what a plain stream gets instead."""

from __future__ import annotations

import io
import re
import sys

import pytest

from dflash_deploy.cli import _output
from dflash_deploy.cli._output import Column

COLUMNS = (
    Column("TASK"), Column("BLOCK", right=True), Column("WHY", wrap=True), Column("", extra=1),
)  # fmt: skip
ROWS = [("gsm8k", "16", "word " * 9 + "end", "████"), ("mbpp", "-", "short", "██")]


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture
def screen(monkeypatch):
    """Draws on a terminal of some width; the lines as they look, without colours."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)

    def draw(width: int, what) -> list[str]:
        monkeypatch.setenv("COLUMNS", str(width))
        stream = Terminal()
        monkeypatch.setattr(sys, "stdout", stream)
        what()
        return re.sub(r"\x1b\[[\d;]*m", "", stream.getvalue()).splitlines()

    return draw


def table() -> None:
    _output.table(COLUMNS, ROWS)


def test_a_wide_terminal_shows_everything_in_one_line_a_row(screen) -> None:
    lines = screen(100, table)
    assert [line.split()[0] for line in lines] == ["TASK", "gsm8k", "mbpp"]
    assert lines[1].endswith("end  ████")


def test_extra_columns_go_first(screen) -> None:
    lines = screen(66, table)
    assert len(lines) == 3
    assert not any("█" in line for line in lines)
    assert lines[1].endswith("end")


def test_extra_columns_of_the_lowest_rank_stay_longest(screen) -> None:
    columns = (Column("LOAD", right=True), *(Column(n * 9, extra=int(n)) for n in "121"))
    told = []
    lines = screen(30, lambda: told.extend(_output.table(columns, [("1", *"abc")])))
    assert told == ["LOAD", "1" * 9, "1" * 9]
    assert len(lines) == 2


def test_a_number_that_stands_for_its_row_has_its_title(screen) -> None:
    columns = (Column("LOAD", right=True), Column("ARM"), Column("TOK/S", right=True))
    lines = screen(20, lambda: _output.table(columns, [("1024", "dflash-16-schedule", "9")]))
    assert lines[0] == "LOAD 1024"


def test_a_label_is_not_left_alone_above_a_path_that_is_too_long(screen) -> None:
    path = "/srv/models/" + "x" * 80
    lines = screen(80, lambda: _output.paragraph(f"{path} and more", label="target    ", indent=2))
    assert lines == [f"  target    {path}", "            and more"]


def test_a_warning_breaks_no_name_in_two(monkeypatch, capsys) -> None:
    monkeypatch.setattr(_output, "on_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    name = "prompts-of-the-support-team-2026-q3-and-q4"
    _output.warning(f"not compared: dflash-16, {name} at 4096")
    assert name in capsys.readouterr().err


@pytest.mark.parametrize(
    ("said", "takes", "short"),
    [("plain text", 10, "plai..."), ("天空为什么是蓝色的", 18, "天空..."), ("e\u0301" * 9, 9, "e\u0301" * 4 + "...")],
)  # fmt: skip
def test_an_ideograph_takes_two_columns_and_an_accent_none(said, takes, short) -> None:
    assert _output.shown_width(said) == takes
    assert _output.shortened(said, takes) == said
    assert _output.shortened(said, 7) == short


def test_columns_stay_aligned_beside_ideographs(screen) -> None:
    rows = [("天空为什么是蓝色的", "1"), ("why", "23")]
    lines = screen(40, lambda: _output.table((Column("PROMPT"), Column("AT", right=True)), rows))
    assert [_output.shown_width(line) for line in lines] == [22, 22, 22]


def test_then_the_columns_that_may_wrap_do(screen) -> None:
    lines = screen(40, table)
    assert lines[0].split() == ["TASK", "BLOCK", "WHY"]
    assert len(lines) == 4  # the long cell takes two
    assert all(len(line.rstrip()) <= 40 for line in lines)


def test_at_last_every_row_stands_by_itself_and_says_only_what_it_has(screen) -> None:
    lines = screen(30, table)
    assert lines[0] == "gsm8k"
    assert lines[1] == "  BLOCK: 16"
    assert lines[2].startswith("  WHY: word")
    assert lines[-2:] == ["mbpp", "  WHY: short"]
    assert all(len(line) <= 30 for line in lines)


@pytest.mark.parametrize("width", range(8, 120, 7))
def test_no_width_cuts_a_word(screen, width: int) -> None:
    words = " ".join(screen(width, table)).split()
    assert words.count("word") == 9
    assert {"gsm8k", "mbpp", "end", "short"} <= set(words)


def test_rows_that_matter_less_are_dim(monkeypatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("NO_COLOR", raising=False)
    _output.table([Column("A")], [["one"], ["two"]], dim={1})
    assert stream.getvalue() == "\x1b[1mA\x1b[0m\none\n\x1b[2mtwo\x1b[0m\n"


def test_a_pipe_gets_whole_lines_and_no_sign_of_a_style(capsys) -> None:
    _output.paragraph("word " * 40, indent=2, label="why  ", style="dim")
    _output.table([Column("A")], [["one"]], dim={0})
    sentence, *rest = capsys.readouterr().out.splitlines()
    assert sentence == "  why  " + "word " * 40
    assert rest == ["A", "one"]


def test_a_sentence_stands_behind_its_label_where_there_is_room(screen) -> None:
    wide = screen(80, lambda: _output.paragraph("word " * 30, indent=2, label="why       "))
    assert wide[0].startswith("  why       word")
    assert all(line.startswith(" " * 12 + "word") for line in wide[1:])
    narrow = screen(40, lambda: _output.paragraph("word " * 30, indent=2, label="why       "))
    assert all(line.startswith("    word") for line in narrow[1:])
    source = screen(40, lambda: _output.paragraph("word " * 30, indent=2, label=" " * 10))
    assert all(line.startswith("    word") for line in source)


def test_a_sentence_is_never_wider_than_it_is_good_to_read(screen) -> None:
    lines = screen(200, lambda: _output.paragraph("word " * 60))
    assert max(map(len, lines)) <= _output.WIDEST


def test_a_name_longer_than_the_line_stays_whole(screen) -> None:
    name = "an-owner/" + "x" * 60
    assert screen(40, lambda: _output.paragraph(name)) == [name]


@pytest.mark.parametrize(
    ("term", "encoding", "no_colour", "drawn"),
    [
        ("xterm", "utf-8", "", True),
        ("xterm", "utf-8", "1", True),  # bars are no colour
        ("dumb", "utf-8", "", False),
        ("xterm", "ascii", "", False),
    ],
)
def test_bars_are_for_terminals_that_know_them(
    monkeypatch, term: str, encoding: str, no_colour: str, drawn: bool
) -> None:
    stream = Terminal()
    monkeypatch.setattr(Terminal, "encoding", encoding)
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("NO_COLOR", no_colour)
    assert _output.draws() is drawn


def test_a_pipe_has_no_bars(capsys) -> None:
    assert _output.draws() is False
