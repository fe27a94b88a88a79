"""Options that take a JSON object, in the ways people write it."""

from __future__ import annotations

import json

import pytest

from dflash_deploy.flag_tables import parse, tables
from dflash_deploy.json_options import dotted_path, in_one, keys, text, together

NEWEST = tables("vllm")[-1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-sc", '{"method": "dflash", "max_model_len": 7}'), {"method": "dflash", "max_model_len": 7}),
        (("--speculative-config.max-model-len", "7"), {"max_model_len": 7}),
        (("-sc.method=dflash",), {"method": "dflash"}),
        (("--hf-overrides.rope_scaling.type", "yarn"), {"rope_scaling": {"type": "yarn"}}),
        (("-sc.enforce_eager", "true"), {"enforce_eager": True}),
        (("-sc", "no json"), {}),
        (("-sc", "[1]"), {}),
        (("-sc",), {}),
        (("--seed", "7"), {}),
    ],
)  # fmt: skip
def test_keys(words, said) -> None:
    (item,) = parse(NEWEST, words)
    assert keys(item) == said


def test_keys_after_dots_stand_together_over_the_last_object_wherever_it_is() -> None:
    dotted = parse(NEWEST, ["--hf-overrides.rope.type", "yarn", "--hf-overrides.rope.factor", "4"])
    rope = {"rope": {"type": "yarn", "factor": 4}}
    assert together(dotted) == rope
    objects = parse(NEWEST, ["--hf-overrides", '{"b": 2}', "--hf-overrides", '{"a": 1}'])
    assert together([*dotted, *objects]) == together([*objects, *dotted]) == {"a": 1, **rope}


def test_an_object_and_keys_after_dots_become_one_option() -> None:
    words = ["--hf-overrides.b", "2", "--seed", "7", "--hf-overrides", '{"a": 1}', "--kv-cache-dtype=fp8",
             "-cc.mode", "3"]  # fmt: skip
    (*kept, last) = in_one(parse(NEWEST, words))
    assert kept == [("--seed", "7"), ("--kv-cache-dtype=fp8",), ("-cc.mode", "3")]
    assert (last[0], json.loads(last[1])) == ("--hf-overrides", {"a": 1, "b": 2})


def test_a_path_is_of_the_name_alone() -> None:
    (item,) = parse(NEWEST, ["--gpu-memory-utilization=0.85"])
    assert dotted_path(item) == []


@pytest.mark.parametrize(
    ("value", "word"), [("a b", "a b"), (True, "true"), ([[1, 8, 7]], "[[1, 8, 7]]")]
)
def test_a_value_on_a_command_line(value, word) -> None:
    assert text(value) == word
