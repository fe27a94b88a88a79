"""Plain decoding's answers in a file: whole lines alone, and of one command alone."""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec
import pytest

from dflash_deploy.measure.kept import FORGOTTEN, Kept, digest
from dflash_deploy.measure.lossless import Answer, Token
from dflash_deploy.measure.prompts import Prompt
from dflash_deploy.measure.questions import Question
from dflash_deploy.measure.report import Report
from dflash_deploy.measure.told import Said
from tests.fakes.reports import report

ASKED = (Question("chat", Prompt("Hello.", "chat"), 24),)


def said(text: str) -> Said:
    return Said(Answer(text, (Token(text, -0.25, {text: -0.25, "b": -1.5}),)), text)


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path / "verify" / "one.jsonl")


def test_what_was_said_is_read_again_with_its_tokens(kept: Kept) -> None:
    assert kept.read() == {}
    kept.add(0, said("a"))
    kept.add(2, said("ä"))
    assert Kept(kept.path).read() == {0: said("a"), 2: said("ä")}
    assert kept.path.stat().st_mode & 0o077 == 0
    kept.forget()
    assert kept.read() == {}


def test_a_line_that_a_crash_cut_off_is_no_answer_and_spoils_none(kept: Kept) -> None:
    kept.add(0, said("a"))
    kept.add(1, said("b"))
    kept.path.write_bytes(kept.path.read_bytes()[:-9])
    kept.add(2, said("c"))
    assert kept.read() == {0: said("a"), 2: said("c")}


def test_what_cannot_be_written_is_said_once_and_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    kept = Kept(tmp_path / "file" / "one.jsonl")
    kept.add(0, said("a"))
    assert kept.trouble
    kept.add(1, said("b"))
    assert kept.read() == {}


def test_one_that_nobody_went_on_with_is_forgotten(kept: Kept) -> None:
    kept.add(0, said("a"))
    other = Kept(kept.path.with_name("other.jsonl"))
    other.add(0, said("b"))
    old = time.time() - FORGOTTEN - 60
    os.utime(kept.path, (old, old))
    assert other.read() == {0: said("b")}
    assert not kept.path.exists()


def changed(before: Report, **options: object) -> Report:
    return msgspec.structs.replace(before, **options)


def test_what_another_command_asked_has_another_name() -> None:
    before = report()
    arms = [
        msgspec.structs.replace(arm, argv=("vllm", "serve", "--port", "8001", arm.name))
        for arm in before.arms
    ]
    moved = [msgspec.structs.replace(arm, argv=("vllm", "serve", "--port", "1", arm.name))
             for arm in arms]  # fmt: skip
    before = changed(before, arms=tuple(arms))
    name = digest(before, ASKED)
    assert digest(changed(before, date="later", arms=tuple(moved)), ASKED) == name
    others = [
        digest(changed(before, seed=7), ASKED),
        digest(changed(before, version="0.1"), ASKED),
        digest(changed(before, arms=report().arms), ASKED),
        digest(before, (*ASKED, *ASKED)),
    ]
    assert len({name, *others}) == 5
