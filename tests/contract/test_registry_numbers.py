"""The numbers of the shipped entries against what was published, typed in by hand a second time."""

from __future__ import annotations

from collections import Counter

import pytest

from dflash_deploy import registry
from dflash_deploy.registry import Entry
from dflash_deploy.schema import Evidence, Measurement
from dflash_deploy.status import status

SHIPPED = registry.load(user=False)


def test_every_card_in_evidence_is_in_the_catalogue() -> None:
    known = {gpu.id for gpu in SHIPPED.gpus}
    named = {x.gpu for e in SHIPPED.entries.values() for x in e.model.evidence if x.gpu}
    assert {name for name in named if "CPU" not in name and "Xeon" not in name} <= known


def rows(evidence: Evidence) -> dict[tuple[str, int | None, int | None], Measurement]:
    return {
        (row.task, row.concurrency, row.block_size or evidence.block_size): row
        for row in evidence.results
    }


@pytest.mark.parametrize("entry", SHIPPED.entries.values(), ids=lambda entry: entry.id)
def test_a_table_has_each_cell_once(entry: Entry) -> None:
    for evidence in entry.model.evidence:
        cells = Counter(
            (row.task, row.concurrency, row.block_size or evidence.block_size)
            for row in evidence.results
        )
        assert max(cells.values()) == 1, evidence.source


@pytest.mark.parametrize("entry", SHIPPED.entries.values(), ids=lambda entry: entry.id)
def test_speedups_agree_with_the_throughputs_beside_them(entry: Entry) -> None:
    for evidence in entry.model.evidence:
        for row in evidence.results:
            if row.speedup and row.tokens_per_second and row.baseline_tokens_per_second:
                ratio = row.tokens_per_second / row.baseline_tokens_per_second
                assert row.speedup == pytest.approx(ratio, rel=0.02), row


# model, index of its evidence, number of rows, then cells: (task, load, block) and the four numbers
CELLS = [
    ("gpt-oss-20b", 0, 20, ("math500", 1, 8), (5.1, 2.2, None, None)),
    ("gpt-oss-20b", 0, 20, ("mt-bench", 32, 8), (None, 1.7, None, None)),
    ("gpt-oss-120b", 0, 65, ("math500", None, 10), (5.4, None, None, None)),
    ("gpt-oss-120b", 0, 65, ("mbpp", None, 6), (3.9, None, None, None)),
    ("gpt-oss-120b", 0, 65, ("math500", 1, 10), (None, 1.9, None, None)),
    ("gpt-oss-120b", 0, 65, ("humaneval", 16, 10), (None, 1.8, None, None)),
    ("gpt-oss-120b", 0, 65, ("mt-bench", 64, 10), (None, 1.2, None, None)),
    ("gpt-oss-120b", 0, 65, ("mt-bench", 32, 4), (None, 1.4, None, None)),
    ("qwen3-4b", 0, 3, ("math500", 8, 16), (None, 4.1, None, None)),
    ("qwen3-4b", 1, 8, ("average", 1, 16), (6.54, 4.91, None, None)),
    ("qwen3-4b", 1, 8, ("livecodebench", 1, 16), (None, 5.41, None, None)),
    ("qwen3-8b", 0, 4, ("math500", 32, 16), (8.01, 2.8, 16076, 5694)),
    ("qwen3-8b", 0, 4, ("humaneval", 1, 16), (6.5, 4.2, None, None)),
    ("qwen3-8b", 2, 8, ("mt-bench", 1, 16), (None, 2.75, None, None)),
    ("llama-3.1-8b", 0, 6, ("humaneval", 32, 10), (4.91, 1.8, None, None)),
    ("gemma-4-31b", 0, 15, ("math500", 1, 16), (8.59, 5.8, 447, 77)),
    ("gemma-4-31b", 0, 15, ("mt-bench", 32, 16), (4.19, 1.9, 2257, 1177)),
    ("gemma-4-31b", 1, 2, ("self-written", 1, 9), (None, None, 120.3, 56.3)),
    ("kimi-k2.5", 0, 10, ("math500", None, 8), (5.5, None, None, None)),
    ("kimi-k2.5", 0, 10, ("humaneval", 32, 8), (None, None, 3146, None)),
    ("qwen3.5-27b", 0, 22, ("humaneval", 1, 16), (None, 6.2, 572.4, 92.4)),
    ("qwen3.5-27b", 0, 22, ("gsm8k", 32, 8), (None, 2.69, 5643.8, 2094.6)),
    ("qwen3.5-27b", 0, 22, ("gsm8k", 32, 16), (None, 1.96, 4108.4, 2094.6)),
    ("qwen3.5-35b-a3b", 0, 21, ("mt-bench", 1, 8), (None, 2.39, 736.0, 307.9)),
    ("qwen3.5-35b-a3b", 0, 21, ("math500", 32, 8), (None, 2.89, 9803.0, 3395.2)),
    ("smollm2-135m", 0, 1, ("held-out", None, 8), (4.02, None, None, None)),
]


@pytest.mark.parametrize(("name", "index", "count", "cell", "numbers"), CELLS)
def test_published_numbers(
    name: str, index: int, count: int, cell: tuple[str, int | None, int], numbers: tuple[float, ...]
) -> None:
    table = rows(SHIPPED.find(name).model.evidence[index])
    row = table[cell]
    assert len(table) == count
    assert numbers == (
        row.acceptance_length,
        row.speedup,
        row.tokens_per_second,
        row.baseline_tokens_per_second,
    )


def test_no_recipe_claims_more_than_was_seen() -> None:
    claims = {
        (entry.name, recipe.name): status(entry, recipe)
        for entry in SHIPPED.entries.values()
        for recipe in entry.model.recipes
    }
    assert {claim for (name, _), claim in claims.items() if name == "smollm2-135m"} <= {
        "untested",
        "verified",
    }
    # Numbers of a pull request's build say nothing about a release.
    assert claims["gemma-4-31b", "vllm"] == "degraded"
    assert claims["gemma-4-31b", "sglang"] == "untested"
    assert claims["kimi-k2.5", "vllm"] == "untested"
    assert claims["kimi-k2.5", "sglang"] == "published"
    # Nor does a paper's own loop say anything about this package's engine.
    assert claims["qwen3-8b", "transformers"] == claims["qwen3-4b", "transformers"] == "untested"


def test_load_chooses_the_block_of_qwen35() -> None:
    for name in ("qwen3.5-27b", "qwen3.5-35b-a3b"):
        for recipe in SHIPPED.find(name).model.recipes:
            low = recipe.when.concurrency_at_most is not None
            assert recipe.block_size == (16 if low else 8), recipe.name
