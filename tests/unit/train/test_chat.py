"""Templates that refuse what others take: a role, an order, or all because they are broken."""

from __future__ import annotations

import json

import pytest

from dflash_deploy.errors import Unsupported, UsageError
from dflash_deploy.train.chat import Chat
from tests.unit.train import small
from tests.unit.train.test_work import begun, work

NO_SYSTEM = (
    "{% if messages[0].role == 'system' %}{{ raise_exception('no system here') }}{% endif %}"
    + small.TEMPLATE
)


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return small.saved_target(tmp_path_factory.mktemp("target"), template=NO_SYSTEM)


def conversations(file, *every):
    file.write_text("".join(json.dumps({"messages": each}) + "\n" for each in every))
    return str(file)


def test_prompts_that_it_refuses_are_told_before_the_first_answer(tmp_path, target):
    asked = [{"role": "user", "content": "Hello"}]
    told = [{"role": "system", "content": "Be brief."}, *asked]
    path = conversations(tmp_path / "asked.jsonl", *[asked] * 5, told)
    begun(tmp_path / "run", target, path=path, prompts=6)
    said = []
    with pytest.raises(UsageError, match="refuses messages of system, user: no system here") as why:
        work(tmp_path / "run", say=said.append)
    assert why.value.hint == "other --prompts, and another --output"
    assert said == []


def test_a_broken_one_is_told_before_the_first_answer(tmp_path):
    target = small.saved_target(tmp_path / "target", template="{% for m in messages %}{{ m ")
    begun(tmp_path / "run", target)
    with pytest.raises(Unsupported, match="the chat template of org/tiny is broken: ") as why:
        work(tmp_path / "run")
    assert "chat_template.jinja" in (why.value.hint or "")


def test_a_user_is_begun_without_a_role_where_it_takes_none(target):
    chat = Chat(small.recipe(model=str(target)))
    assert chat.user_turn("You are a cook.") == chat.user_turn(None)
