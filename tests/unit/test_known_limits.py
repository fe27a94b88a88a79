"""What `show` says of a pair before anybody asks for anything."""

from __future__ import annotations

from dflash_deploy.known_limits import limits, refusal
from dflash_deploy.registry import load

REGISTRY = load(user=False)


def found(model: str, engine: str) -> dict[str, tuple[str, ...]]:
    entry = REGISTRY.find(model)
    draft = entry.model.drafts[0]
    return {x.finding.rule: x.cards for x in limits(REGISTRY.engines[engine], entry.target, draft)}


def test_what_holds_everywhere_and_what_on_some_cards() -> None:
    assert found("gemma-4-31b", "vllm")["gemma-scale"] == ()
    assert found("qwen3.5-27b", "vllm")["hybrid-prefix-caching"] == ()
    assert set(found("qwen3.8-27b", "sglang")["prefill-graph"]) == {
        "ampere",
        "ada",
        "blackwell-rtx",
    }


def test_a_plain_pair_has_limits_for_clients_alone() -> None:
    assert set(found("qwen3-8b", "vllm")) == {"request-limits"}


def test_what_a_fix_adds_is_spelled_as_the_newest_release_spells_it() -> None:
    entry = REGISTRY.find("qwen3.8-27b")
    found = limits(REGISTRY.engines["sglang"], entry.target, entry.model.drafts[0])
    fixes = {limit.finding.rule: limit.adds for limit in found if limit.finding.severity == "fix"}
    assert fixes["prefill-graph"] == ("--disable-prefill-cuda-graph",)


def test_what_matters_most_comes_first() -> None:
    entry = REGISTRY.find("gemma-4-31b")
    found = limits(REGISTRY.engines["vllm"], entry.target, entry.model.drafts[0])
    assert [limit.finding.severity for limit in found] == ["warn", "note"]


def test_the_documented_number_of_cards_counts() -> None:
    assert found("kimi-k2.5", "vllm")["many-ranks-fa3"] == ("hopper",)


def test_why_the_newest_release_serves_no_such_pair() -> None:
    hybrid, plain = REGISTRY.find("qwen3.5-27b"), REGISTRY.find("qwen3-8b")
    embedded = REGISTRY.engines["transformers"]
    refused = refusal(embedded, hybrid.target, hybrid.model.drafts[0])
    assert refused is not None
    assert refused.rule == "recurrent-target"
    assert refusal(embedded, plain.target, plain.model.drafts[0]) is None
