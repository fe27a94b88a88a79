"""Cards that a plan leaves idle are told where they would serve many more."""

from __future__ import annotations

import pytest

from dflash_deploy.hardware import parse
from dflash_deploy.plan import Plan, make_plan
from dflash_deploy.registry import load
from dflash_deploy.request import Request

REGISTRY = load(user=False)


def planned(gpu: str, model: str = "qwen3.5-27b", **asked: int) -> Plan:
    request = Request(model=model, engine="vllm", **asked)
    return make_plan(REGISTRY, request, parse(gpu, REGISTRY.gpus))


def told(plan: Plan) -> list[str]:
    return [line for line in plan.warnings if "--tensor-parallel" in line]


def why(plan: Plan) -> str:
    return next(choice.why for choice in plan.choices if choice.name == "tensor_parallel")


def test_what_the_other_card_would_hold() -> None:
    few = planned("H100:2")
    many = planned("H100:2", tensor_parallel=2)
    assert (few.tensor_parallel, many.tensor_parallel) == (1, 2)
    (line,) = told(few)
    assert f"{few.concurrency} requests at once: --tensor-parallel 2 has room for" in line
    assert line.endswith(f" {many.concurrency}")
    assert many.concurrency >= 2 * few.concurrency
    assert why(few).endswith(f"; {line}")
    assert ";" not in why(many)


@pytest.mark.parametrize(
    ("gpu", "model", "asked"),
    [
        ("H100", "qwen3.5-27b", {}),
        ("H100:2", "qwen3.5-27b", {"tensor_parallel": 2}),
        ("H100:2", "qwen3.5-27b", {"concurrency": 4}),
        ("H100:2", "qwen3-4b", {}),
    ],
)
def test_nothing_to_be_told(gpu: str, model: str, asked: dict[str, int]) -> None:
    assert told(planned(gpu, model, **asked)) == []
