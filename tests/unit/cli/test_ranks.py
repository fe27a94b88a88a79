"""Processes of one `torchrun`: which of them speaks, and when."""

from __future__ import annotations

import sys

import pytest

from dflash_deploy.cli import _ranks, main

SECOND = {"RANK": "1", "WORLD_SIZE": "2"}


@pytest.fixture
def pauses(monkeypatch):
    made = []
    monkeypatch.setattr(_ranks.time, "sleep", made.append)
    return made


@pytest.mark.parametrize(
    ("argv", "environ", "number"),
    [
        (["bench", "m"], SECOND, 1),
        (["serve", "m"], SECOND, 0),  # on one of several machines
        (["bench", "m"], {"RANK": "1"}, 0),
        (["bench", "m"], {"RANK": "0", "WORLD_SIZE": "2"}, 0),
        (["bench", "m"], {"RANK": "x", "WORLD_SIZE": "2"}, 0),
        ([], SECOND, 0),
    ],
)
def test_who_is_not_the_first(argv, environ, number):
    assert _ranks.number(argv, environ) == number


@pytest.mark.parametrize("argv", [["bench", "--nope"], ["bench", "nobody/none"], ["tune", "x"]])
def test_a_slip_is_said_by_the_first_and_by_another_only_if_nobody_ends_it(
    argv, pauses, monkeypatch, capsys
):
    for name, value in SECOND.items():
        monkeypatch.setenv(name, value)
    with monkeypatch.context() as ended:
        ended.setattr(_ranks.time, "sleep", lambda _: sys.exit(143))
        with pytest.raises(SystemExit):
            main(argv)
    assert capsys.readouterr() == ("", "")
    assert main(argv) in (2, 3)
    assert pauses == [_ranks.PATIENCE]
    said = capsys.readouterr().err
    assert said.startswith("process 1, and not the first:\n")
    assert "rror: " in said


@pytest.mark.parametrize("code", [0, 130, 143])
def test_what_ends_well_or_by_a_signal_is_not_said_twice(code, pauses, capsys):
    def command() -> int:
        sys.stderr.write("interrupted\n")
        return code

    assert _ranks.quietly(1, command) == code
    assert (pauses, capsys.readouterr().err) == ([], "")
