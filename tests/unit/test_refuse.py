"""What may not follow `--`: in any spelling the engine's parser knows."""

from __future__ import annotations

import pytest

from dflash_deploy.errors import UsageError
from dflash_deploy.hardware import Hardware
from dflash_deploy.plan import make_plan
from dflash_deploy.registry import load
from dflash_deploy.request import Request

REGISTRY = load(user=False)


def planned(engine: str, *words: str, version: str | None = None):
    request = Request(model="qwen3-8b", engine=engine, engine_version=version, engine_args=words)
    return make_plan(REGISTRY, request, Hardware())


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        ("vllm", ("-sc", "{}")),
        ("vllm", ("--speculative_config", "{}")),
        ("vllm", ("--speculative-config.method=eagle",)),
        ("vllm", ("--spec-tokens", "3")),
        ("vllm", ("--model", "other/model")),
        ("vllm", ("--served_model_name", "x")),
        ("vllm", ("-tp", "3")),
        ("vllm", ("--max-model-len", "100")),
        ("sglang", ("--model", "other/model")),
        ("sglang", ("--speculative-draft-model", "other/draft")),
        ("sglang", ("--speculative-dflash-block-size", "4")),
        ("sglang", ("--tensor-parallel-size=2",)),
        ("sglang", ("--max-running-requests", "7")),
        ("sglang", ("--config", "/etc/passwd")),
    ],
)
def test_what_the_plan_decides_cannot_be_said_behind_its_back(engine, words):
    with pytest.raises(UsageError, match="would contradict the plan"):
        planned(engine, *words)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_key_is_never_an_argument(engine):
    with pytest.raises(UsageError, match="everybody to see"):
        planned(engine, "--api-key=sk-1")


def test_an_option_that_this_release_has_not_is_refused():
    with pytest.raises(UsageError, match="has no option --mamba-scheduler-strategy"):
        planned("sglang", "--mamba-scheduler-strategy", "extra_buffer")
    early = planned("sglang", "--mamba-scheduler-strategy", "extra_buffer", version="0.5.19")
    assert early.argv[-2:] == ("--mamba-scheduler-strategy", "extra_buffer")


def test_an_option_of_a_release_that_nobody_here_has_seen_passes():
    assert planned("vllm", "--brand-new", "1", version="0.99.0").argv[-2:] == ("--brand-new", "1")


def test_what_is_left_goes_to_the_engine():
    words = ("--seed", "7", "--gpu-memory-utilization=0.85")
    assert planned("vllm", *words).argv[-3:] == words
