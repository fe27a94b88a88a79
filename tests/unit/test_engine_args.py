"""Words after `--` that say nothing to this engine: a value too many, another engine's option."""

from __future__ import annotations

import pytest

from dflash_deploy.errors import UsageError
from dflash_deploy.hardware import Hardware
from dflash_deploy.plan import make_plan
from dflash_deploy.registry import load
from dflash_deploy.request import Request

REGISTRY = load(user=False)


def refusal(engine: str, *words: str) -> UsageError:
    with pytest.raises(UsageError) as raised:
        make_plan(REGISTRY, Request(model="qwen3-8b", engine=engine, engine_args=words), Hardware())
    return raised.value


@pytest.mark.parametrize(
    ("engine", "words", "message", "hint"),
    [
        ("vllm", ("--enable-lora=1",), "--enable-lora 1: it takes no value", "--enable-lora alone"),
        ("vllm", ("--no-enable-prefix-caching=x",), "it takes no value", "--no-enable-prefix"),
        ("sglang", ("--enable-metrics=",), "--enable-metrics: it takes no value", "--enable-me"),
        ("vllm", ("--enable-lora", "true"), "`true` belongs to no option", "-- --enable-lora"),
        ("sglang", ("--enable-metrics", "yes"), "--enable-metrics takes no more", "-- --enable-me"),
        ("sglang", ("--random-seed", "7", "8"), "`8` belongs to no option", "-- --random-seed 7"),
    ],
)
def test_a_value_that_nothing_takes(engine, words, message, hint) -> None:
    refused = refusal(engine, *words)
    assert message in refused.message
    assert str(refused.hint).startswith(hint)


@pytest.mark.parametrize(
    ("engine", "words", "hint"),
    [
        ("sglang", ("--max-model-len", "-5"), "--context, before the `--`"),
        ("vllm", ("--tp-size", "2"), "--tensor-parallel, before the `--`"),
        ("vllm", ("--mem-fraction-static", "0.8"), "-- --gpu-memory-utilization 0.8"),
        ("sglang", ("--gpu-memory-utilization=0.8",), "-- --mem-fraction-static 0.8"),
        ("vllm", ("--bogus",), "dflash explain --engine-version 0.33.0 -- vllm serve"),
    ],
)
def test_what_another_engine_calls_so_has_a_name_here(engine, words, hint) -> None:
    refused = refusal(engine, *words)
    assert "has no option" in refused.message
    assert str(refused.hint).startswith(hint)


def test_a_value_that_is_not_read_is_warned_of() -> None:
    asked = Request(model="qwen3-8b", engine="vllm", engine_args=("--max-loras", "0"))
    made = make_plan(REGISTRY, asked, Hardware())
    assert "--max-loras does nothing without --enable-lora" in made.warnings
    assert "at least 1" in refusal("vllm", "--max-loras", "0", "--enable-lora").message
