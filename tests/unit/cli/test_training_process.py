"""What `dflash train` prints of the process that trains."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from dflash_deploy.cli._training_process import Progress, why
from dflash_deploy.errors import DoesNotFit
from dflash_deploy.train.events import Event, interrupted


def test_what_is_to_be_known_is_said_beside_how_far_it_is(capsys):
    with Progress() as progress:
        progress.show(Event("answers", 6, 6))
        progress.show(Event(said="4 of 6 prompts are left out"))
    assert capsys.readouterr().err.splitlines() == [
        "6 of 6 answers of the target", "4 of 6 prompts are left out",
    ]  # fmt: skip


FULL = DoesNotFit("the disk is full")


@pytest.mark.parametrize(
    ("code", "own_word", "came", "exit_code"),
    [
        (130, True, [signal.SIGINT], 130),
        (130, True, [signal.SIGTERM], 143),
        (130, True, [signal.SIGHUP], 129),
        (-signal.SIGKILL, False, [signal.SIGINT, signal.SIGINT], 130),
        (-signal.SIGTERM, False, [signal.SIGINT], 130),  # before it listened
        (-signal.SIGTERM, False, [], 143),
        (130, True, [], 130),
    ],
)
def test_the_exit_code_tells_the_signal(code, own_word, came, exit_code):
    error = why(Path("run"), code, interrupted(Path("run")) if own_word else None, came)
    assert (error.exit_code, error.code) == (exit_code, "interrupted")
    assert error.message == "interrupted: what was done is in run"


def test_what_else_ended_it_is_said():
    assert why(Path("run"), 4, FULL, [signal.SIGINT]) is FULL
    assert "out of memory" in why(Path("run"), -signal.SIGKILL, None, []).message
    assert "code 1" in why(Path("run"), 1, None, []).message
