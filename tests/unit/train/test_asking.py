"""Prompts that the target writes, and answers of many rows at once beside answers one by one."""

from __future__ import annotations

import msgspec
import pytest

from dflash_deploy.speculative.load import load_model
from dflash_deploy.train import answers, asking, files
from dflash_deploy.train.chat import Chat
from dflash_deploy.train.gpus import Devices
from dflash_deploy.train.prompts import Asked
from tests.unit.train import small


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return small.saved_target(tmp_path_factory.mktemp("target"))


@pytest.fixture
def plan(target):
    return small.recipe(
        model=str(target), prompts=3, self_prompts=12, answer_tokens=16, length=160, sampled=0.0
    )


class Scripted:
    """Says what it is told to, in turn."""

    window = 5

    def __init__(self, *said: list[int]) -> None:
        self.said, self.seen = list(said), []

    def continued(self, rows, ends, seed, told):
        self.seen += rows
        told(len(rows))
        return [self.said.pop(0) for _ in rows]


def test_prompts_that_end_and_say_something_are_kept_once(tmp_path, plan):
    chat = Chat(plan)
    end = chat.end
    said = [
        [*chat.text("What is bread made of?"), end], chat.text("a prompt without an end"),
        [*chat.text("hi"), end], [*chat.text("What is bread made of?"), end], [end], [],
        *([*chat.text(f"Question number {n}"), end] for n in range(6)),
    ]  # fmt: skip
    devices = Scripted(*said)
    told = []
    found = asking.write(
        tmp_path, plan, chat, lambda: devices, frozenset({end}), lambda *how: told.append(how)
    )
    texts = [one.messages[0]["content"] for one in found]
    assert texts == ["What is bread made of?", *(f"Question number {n}" for n in range(6))]
    # behind the prompts that were there before
    assert [one.id for one in found] == list(range(3, 10))
    # a window's own end is no end of the stage
    assert told == [(5, 12), (5, 12), (10, 12), (10, 12), (11, 12), (12, 12)]
    starts = {chat.said(row.prompt) for row in devices.seen}
    assert "user" in starts
    assert any(start.startswith("system You ") for start in starts)
    assert files.read_lines(tmp_path / asking.FILE, Asked) == found


def test_what_was_written_is_not_written_again(tmp_path, plan):
    files.rewrite(tmp_path / asking.FILE, [Asked(3, [{"role": "user", "content": "again?"}])])

    def nothing():
        raise AssertionError

    [one] = asking.write(tmp_path, plan, Chat(plan), nothing, frozenset(), lambda *_: None)
    assert one.id == 3


def test_many_rows_at_once_answer_as_one_after_another(plan):
    chat, model = Chat(plan), load_model(plan.model, dtype="float32")
    long = "x" * 400
    asked = [
        Asked(n, [{"role": "user", "content": text}])
        for n, text in enumerate(["one", "another question", long, "and a third"])
    ]
    ends = chat.ends(model)
    together = list(answers.on_gpus(plan, chat, Devices(model), ends)(asked))
    ask = answers.from_here(plan, chat, model)
    assert together == [ask(one) for one in asked]
    assert together[2].input_ids == []  # no room for an answer
    warm = msgspec.structs.replace(plan, sampled=1.0, temperature=5.0)
    assert list(answers.on_gpus(warm, chat, Devices(model), ends)(asked)) != together
