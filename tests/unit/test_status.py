"""A recipe's status follows from the evidence of its own engine, draft and releases."""

from __future__ import annotations

import contextlib

import pytest
from msgspec.structs import replace

from dflash_deploy import hardware, registry
from dflash_deploy.errors import DFlashError
from dflash_deploy.registry import Entry
from dflash_deploy.request import Request
from dflash_deploy.resolve import resolve
from dflash_deploy.schema import Evidence, Floor, Measurement, Outcome, Recipe, When
from dflash_deploy.status import nearest_synthetic, status
from dflash_deploy.summary import engine_statuses

ENTRY = registry.load(user=False).entries["Qwen/Qwen3-8B"]
RECIPE = Recipe(name="r", when=When(engine="vllm"), why="w", source="s")


def seen(outcome: Outcome, **other: object) -> Evidence:
    evidence = Evidence(
        outcome=outcome, engine="vllm", version="0.30.0", gpu="H100", date="2026-11-27",
        block_size=16, how="h", source="s",
    )  # fmt: skip
    return replace(evidence, **other)


def entry(*evidence: Evidence) -> Entry:
    floor = Floor(engine="vllm", version="0.23.0", because="b", source="s")
    model = replace(ENTRY.model, evidence=list(evidence), floors=[floor])
    return Entry(ENTRY.id, model, ENTRY.files, ENTRY.layer)


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ([], "untested"),
        (["published"], "published"),
        (["published", "verified"], "verified"),
        (["verified", "degraded", "published"], "degraded"),
        (["degraded", "unsupported", "verified"], "unsupported"),
    ],
)
def test_the_worst_that_was_seen_counts(outcomes: list[Outcome], expected: str) -> None:
    assert status(entry(*map(seen, outcomes)), RECIPE) == expected


@pytest.mark.parametrize(
    "other",
    [
        {"engine": "sglang"},
        {"draft": "other/draft"},
        {"build": "PR #41703"},
        {"version": "0.22.1"},
    ],
)
def test_what_is_about_something_else_does_not_count(other: dict[str, object]) -> None:
    assert status(entry(seen("verified", **other)), RECIPE) == "untested"


def test_the_draft_may_be_named_or_be_the_first() -> None:
    first = ENTRY.model.drafts[0].id
    assert status(entry(seen("verified", draft=first)), RECIPE) == "verified"
    assert status(entry(seen("verified")), replace(RECIPE, draft=first)) == "verified"
    assert status(entry(seen("verified")), replace(RECIPE, draft="other/draft")) == "untested"


def test_a_recipe_for_some_releases_counts_what_they_did() -> None:
    old = replace(RECIPE, when=When(engine="vllm", version="<0.28"))
    assert status(entry(seen("degraded")), old) == "untested"
    assert status(entry(seen("degraded", version="0.27.1")), old) == "degraded"
    assert status(entry(seen("published", version=None)), old) == "published"


def test_what_cannot_be_compared_is_not_hidden() -> None:
    assert status(entry(seen("unsupported", version="nightly")), RECIPE) == "unsupported"


def test_a_recipe_for_any_engine_counts_all() -> None:
    anywhere = replace(RECIPE, when=When())
    assert status(entry(seen("verified"), seen("degraded", engine="sglang", version="0.5.20")), anywhere) == "degraded"  # fmt: skip


def test_a_draft_that_was_accepted_less_is_degraded_on_every_card() -> None:
    far = frozenset({"H100", "H200"})
    less, never = (
        entry(seen(outcome, gpu="RTX-PRO-6000")) for outcome in ("degraded", "unsupported")
    )
    assert status(less, RECIPE, cards=far) == status(less, RECIPE) == "degraded"
    assert status(never, RECIPE, cards=far) == "untested"
    assert status(never, RECIPE, cards=far | {"RTX-PRO-6000"}) == "unsupported"


def test_the_weights_that_a_plan_takes_are_meant_where_none_are_named() -> None:
    first = ENTRY.target.weights[0].name
    other = entry(seen("degraded", weights="other"), seen("verified", weights=first))
    assert status(other, RECIPE) == status(other, RECIPE, first) == "verified"
    assert status(other, RECIPE, "other") == "degraded"


@pytest.mark.parametrize("gpu", ["H100:8", "RTX-PRO-6000:8", None])
def test_a_plan_has_the_status_that_list_and_show_have(gpu: str | None) -> None:
    known = registry.load(user=False)
    cards = hardware.parse(gpu, known.gpus) if gpu else hardware.Hardware()
    seen = {}
    for each in known.entries.values():
        for name in engine_statuses(each):
            with contextlib.suppress(DFlashError):
                made = resolve(known, Request(model=each.id, engine=name), cards)
                seen[each.name, name] = made.status
                assert made.status == status(each, made.recipe), each.id
    assert len(seen) > 30
    assert seen.get(("gemma-4-12b", "vllm")) == "degraded"


@pytest.mark.parametrize(
    ("block", "load", "told"),
    [
        (16, 1, 3.0), (16, 40, 0.5), (8, 40, 2.5),
        (8, 1, 2.5),  # a gain of its block says more than one of its load
        (4, 2, 3.0),
    ],
)  # fmt: skip
def test_what_was_made_up_is_told_of_a_plans_own_block_and_load(
    block: int, load: int, told: float
) -> None:
    def row(load: int, block: int, gain: float) -> Measurement:
        return Measurement(task="random", concurrency=load, block_size=block, speedup=gain)

    made_up = seen("synthetic", build="synthetic acceptance: 5", results=[
        row(1, 16, 3.0), row(32, 16, 0.5), row(32, 8, 2.5)
    ])  # fmt: skip
    of_another = replace(made_up, engine="sglang", results=[row(load, block, 9.0)])
    known = entry(made_up, of_another)
    found = nearest_synthetic(known, known.draft(None), "vllm", block, load)

    assert found is not None
    assert found[0].speedup == told


def test_of_what_was_made_up_twice_the_latest_is_told() -> None:
    def made_up(day: str, gain: float) -> Evidence:
        row = Measurement(task="random", concurrency=8, block_size=16, speedup=gain)
        return seen("synthetic", build="synthetic acceptance: 5", date=day, results=[row])

    known = entry(made_up("2026-11-28", 3.1), made_up("2026-11-30", 3.4), made_up("2026-11-29", 2))
    found = nearest_synthetic(known, known.draft(None), "vllm", 16, 8)

    assert found is not None
    assert found[0].speedup == 3.4


@pytest.mark.parametrize(
    ("model", "load", "told"),
    [
        ("qwen3.5-27b", 64, "0.75x at 64 with blocks of 8: slower than plain decoding)"),
        ("qwen3.5-27b", 32, "0.97x at 32 with blocks of 8)"),
        ("gpt-oss-20b", 64, "0.56x at 64 with blocks of 8: slower than plain decoding)"),
        ("qwen3-8b", 32, "2.06x at 32 with draft tokens 15 up to 16 requests, 7 up to 64"),
        ("qwen3-8b", 200, "1.53x at 64 with draft tokens 15 up to 16 requests, 7 up to 64"),
        ("llama-3.1-8b", 65, "1.46x at 64 with draft tokens 9 up to 16 requests, 4 up to 64"),
    ],
)
def test_a_plan_promises_the_gain_of_its_own_load(model: str, load: int, told: str) -> None:
    known, cards = registry.load(user=False), hardware.parse("H200", registry.load().gpus)
    request = Request(model=model, engine="vllm", concurrency=load)
    (line,) = (each for each in resolve(known, request, cards).warnings if "untested" in each)

    assert told in line
