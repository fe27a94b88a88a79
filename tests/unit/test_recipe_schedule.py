"""A recipe whose draft tokens follow the load: planned, said, left out where a block is asked for."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from dflash_deploy.errors import EngineError
from dflash_deploy.hardware import Hardware
from dflash_deploy.plan import Plan, make_plan
from dflash_deploy.registry import Registry, load
from dflash_deploy.request import Request
from dflash_deploy.schedule import in_words
from dflash_deploy.schema import Recipe, When
from dflash_deploy.summary import values

SPANS = [(1, 19, 15), (20, 64, 7)]
KEY = "num_speculative_tokens_per_batch_size"
TUNED = Recipe(
    name="mine", when=When(engine="vllm", version=">=0.24.0"), block_size=16, schedule=SPANS,
    why="w", source="s",
)  # fmt: skip


@pytest.fixture(scope="module")
def registry() -> Registry:
    shipped = load(user=False)
    entry = shipped.find("qwen3-8b")
    model = msgspec.structs.replace(entry.model, recipes=[TUNED, *entry.model.recipes])
    return replace(shipped, entries={**shipped.entries, entry.id: replace(entry, model=model)})


def planned(registry: Registry, *words: str, **asked: Any) -> Plan:
    request = Request(
        model="qwen3-8b", engine="vllm", engine_version="0.26.0", engine_args=words, **asked
    )
    return make_plan(registry, request, Hardware())


def speculation(plan: Plan) -> dict[str, Any]:
    return dict(json.loads(plan.argv[plan.argv.index("--speculative-config") + 1]))


def test_it_is_written_beside_the_most_draft_tokens(registry: Registry) -> None:
    said = speculation(planned(registry))
    assert said["num_speculative_tokens"] == 15
    assert said[KEY] == [[1, 19, 15], [20, 64, 7]]


def test_another_block_leaves_it_out(registry: Registry) -> None:
    assert KEY not in speculation(planned(registry, block_size=8))


def test_a_schedule_after_the_dashes_takes_its_place(registry: Registry) -> None:
    said = speculation(planned(registry, f"--speculative-config.{KEY}", "[[1, 64, 3]]"))
    assert said[KEY] == [[1, 64, 3]]


def test_rules_look_at_it(registry: Registry) -> None:
    parallel = ("--data-parallel-size", "2")
    assert any("copies" in line for line in planned(registry, *parallel).warnings)
    old = Request(model="qwen3-8b", engine="vllm", engine_version="0.25.1", engine_args=parallel)
    with pytest.raises(EngineError, match="copies of the model"):
        make_plan(registry, old, Hardware())


def test_in_words() -> None:
    assert in_words([(20, 64, 7), (1, 19, 15)]) == "15 up to 19 requests, 7 up to 64"
    assert values(TUNED) == "blocks of 16, draft tokens 15 up to 19 requests, 7 up to 64"
