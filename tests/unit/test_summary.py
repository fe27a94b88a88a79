"""An entry in a few words: its place in the list, its draft, engines, best gain and recipes."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dflash_deploy.registry import Entry, load
from dflash_deploy.schema import Evidence, Measurement, Recipe, When
from dflash_deploy.summary import (
    best_speedup,
    conditions,
    engine_statuses,
    matches,
    meant,
    order,
    summarise,
    values,
)

REGISTRY = load(user=False)
PLAIN = REGISTRY.entries["Qwen/Qwen3-8B"]
TWO_DRAFTS = REGISTRY.entries["meta-models/Muse-Glimmer-30B"]
ASSISTANT = "meta-models/Muse-Glimmer-30B-assistant"


def changed(entry: Entry = PLAIN, **fields) -> Entry:
    return Entry(entry.id, replace(entry.model, **fields), entry.files, entry.layer)


def named(alias: str, **fields) -> Entry:
    return changed(aliases=[alias], **fields)


def seen(*results: Measurement, **other) -> Evidence:
    return Evidence(
        outcome="published", engine="vllm", version="0.33.0", gpu="H100", date=None, block_size=16,
        how="h", source="s", results=list(results), **other,
    )  # fmt: skip


def test_numbers_in_names_count_as_numbers_and_the_unservable_come_last() -> None:
    entries = [
        named("q3-4b", unservable="why", recipes=[]),
        *map(named, ["q3.5-4b", "q3-14b", "Q3-8b", "q3-coder"]),
    ]
    ordered = [entry.name for entry in sorted(entries, key=order)]
    assert ordered == ["Q3-8b", "q3-14b", "q3-coder", "q3.5-4b", "q3-4b"]


def test_a_family_stays_together() -> None:
    names = [entry.target.family for entry in sorted(REGISTRY.entries.values(), key=order)
             if not entry.model.unservable]  # fmt: skip
    runs = [name for i, name in enumerate(names) if i == 0 or names[i - 1] != name]
    assert len(runs) == len(set(runs))


@pytest.mark.parametrize(
    ("query", "engine", "found"),
    [
        ("", None, True),
        ("QWEN3-8b", None, True),
        ("z-lab", None, True),  # the draft's owner
        (PLAIN.target.family, "sglang", True),
        ("llama", None, False),
        ("qwen3", "transformers", True),
    ],
)
def test_a_query_is_part_of_any_name(query: str, engine: str | None, found: bool) -> None:
    assert matches(PLAIN, query, engine) is found


def test_an_engine_without_a_recipe_matches_nothing() -> None:
    assert not matches(REGISTRY.entries["Qwen/Qwen3.5-27B"], "", "transformers")


def test_the_family_is_found_where_no_name_has_it() -> None:
    assert matches(changed(target=replace(PLAIN.target, family="house-blend")), "blend", None)


def test_a_drafts_id_means_that_draft_and_every_other_name_the_first() -> None:
    assert meant(TWO_DRAFTS, ASSISTANT.upper()).id == ASSISTANT
    assert meant(TWO_DRAFTS, "muse-glimmer") == TWO_DRAFTS.model.drafts[0]
    assert meant(changed(drafts=[]), "qwen3-8b") is None


def test_an_engines_status_is_that_of_the_draft_that_is_asked_about() -> None:
    first, other = TWO_DRAFTS.model.drafts
    assert engine_statuses(TWO_DRAFTS, first) == {"sglang": "published", "vllm": "untested"}
    assert engine_statuses(TWO_DRAFTS, other) == {"vllm": "published", "sglang": "untested"}
    unread = REGISTRY.find("JonasLoos/Qwen3.8-27B-DFlash2-b32")
    assert engine_statuses(unread, unread.draft("JonasLoos/Qwen3.8-27B-DFlash2-b32")) == {}


def test_a_further_draft_whose_recipes_stand_in_front_does_not_speak_for_the_first() -> None:
    entry = load(user=False).find("smollm2-135m")
    (first,) = entry.model.drafts
    further = replace(first, id="me/Trained")
    shipped = entry.model.recipes
    in_front = replace(shipped[0], name="trained", draft=further.id)
    overlaid = changed(entry, drafts=[first, further], recipes=[in_front, *shipped])
    found = engine_statuses(overlaid)
    assert found == engine_statuses(entry)
    assert found["transformers"] == "verified"


def test_the_best_gain_is_the_largest_that_a_release_showed() -> None:
    evidence = [
        seen(Measurement(task="gsm8k", speedup=2.0), Measurement(task="mbpp", speedup=3.25)),
        seen(Measurement(task="alpaca", speedup=9.0), build="PR #1"),
        seen(Measurement(task="math500", tokens_per_second=900.0)),
    ]
    assert best_speedup(changed(evidence=evidence)) == "3.25x mbpp"
    assert best_speedup(changed(evidence=evidence[1:])) is None


def test_the_json_of_an_entry_that_nothing_serves() -> None:
    entry = changed(unservable="no engine", recipes=[], drafts=[], evidence=[])
    document = summarise(entry, REGISTRY.engines)
    assert document["unservable"] == "no engine"
    assert (document["drafts"], document["engines"], document["floors"]) == ([], {}, {})
    assert document["best_speedup"] is None


def test_made_up_acceptance_is_the_last_to_be_shown_and_labelled() -> None:
    entry = REGISTRY.find("qwen3-8b")
    made_up = [each for each in entry.model.evidence if each.synthetic]
    assert {each.gpu for each in made_up} == {"H200"}
    alone = changed(entry, evidence=made_up)
    assert (best_speedup(entry), best_speedup(alone)) == ("5.1x math500", "4.99x synthetic")
    document = summarise(alone, REGISTRY.engines)
    assert document["best_speedup"] is None
    assert document["best_synthetic"]["speedup"] == 4.99
    assert set(document["engines"].values()) == {"untested"}


def test_made_up_acceptance_is_no_promise_where_a_release_was_seen_to_be_slower() -> None:
    entry = REGISTRY.find("gemma-4-31b")
    assert {each.outcome for each in entry.model.evidence} >= {"degraded", "synthetic"}
    assert best_speedup(entry) is None


def test_a_condition_in_words() -> None:
    when = When(engine="vllm", version=">=0.26", architecture=["hopper", "ada"], cards=["H200"],
                memory_at_least_gib=80, concurrency_at_most=8, kv_dtype="fp8", thinking="on")  # fmt: skip
    assert conditions(when) == (
        "vllm >=0.26, hopper, ada, H200, 80 GiB cards, up to 8 at once, fp8 KV, thinking on"
    )
    assert conditions(When()) == "any engine"


def test_what_a_recipe_sets_in_words() -> None:
    bare = Recipe(name="r", why="w", source="s")
    assert values(bare) == ""
    full = replace(
        bare, block_size=8, attention_backend="fa3", draft_attention_backend="fa4", kv_dtype="fp8",
        max_concurrency=16, memory_fraction=0.75, flags=["--page-size=1"],
    )  # fmt: skip
    assert values(full) == (
        "blocks of 8, target on fa3, draft on fa4, KV cache fp8, at most 16 at once,"
        " memory fraction 0.75, --page-size=1"
    )


def test_what_was_seen_with_other_weights_counts_where_the_first_were_not_tried():
    # evidence of the demo pair is of its q4_1 weights, and bf16 come first
    statuses = engine_statuses(load(user=False).find("smollm2-135m"))
    assert statuses == {"transformers": "verified", "vllm": "verified", "sglang": "untested"}
