from __future__ import annotations

import random

import pytest

from dflash_deploy.train.grammar import Grammar

RULES = {
    "sum": ["What is {1..9} plus {1..9}?"],
    "list": ["Sort these:\n{line*3}"],
    "line": ["{word}\n"],
    "word": ["one", "two"],
    "braces": ["Dear {{name}}, {word}"],
}


def expanded(text: str) -> str:
    return Grammar({"sum": 1}, RULES).expanded(text, random.Random(4))


def test_rules_numbers_lines_and_braces():
    assert expanded("{sum}").startswith("What is ")
    assert len(expanded("{list}").splitlines()) == 4
    assert len(expanded("{word*3}").split(" ")) == 3
    assert expanded("{braces}").startswith("Dear {name}, ")


def test_different_prompts_and_an_end_where_there_are_no_more():
    found = Grammar({"sum": 1}, RULES).prompts(500, seed=1)
    assert 60 < len(found) <= 81
    assert len(set(found)) == len(found)


def test_a_rule_that_is_not_there_is_named():
    with pytest.raises(ValueError, match="no rule nowhere, verb"):
        Grammar({"nowhere": 1}, RULES | {"sum": ["{verb}"]})
