"""What `show` says of a pair before anybody asks for anything."""

from __future__ import annotations

from dflash_deploy.known_limits import limits
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
