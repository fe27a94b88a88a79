"""Rules speak at the option, the model or the release that they are about."""

from __future__ import annotations

from tests.unit.explain.test_flags import PAIR, SGLANG


def test_the_block_the_draft_cannot_do(said) -> None:
    found = said(PAIR.replace("tokens 15", "tokens 31"))
    assert found["--speculative-config.num_speculative_tokens 31"] == "wrong"
    found = said(SGLANG + "--speculative-num-draft-tokens 32")
    assert found["--speculative-num-draft-tokens 32"] == "wrong"


def test_the_ranks_the_draft_cannot_be_cut_into(said) -> None:
    assert said(PAIR + "-tp 3")["-tp 3"] == "wrong"


def test_the_release(said) -> None:
    assert said(PAIR, version="0.21.0")["vllm 0.21.0"] == "wrong"
    assert said(PAIR, version="0.19.0")["vllm 0.19.0"] == "wrong"
    assert said(PAIR, version="9.0")["vllm 9.0"] == "note"
    assert "vllm 0.33.0" not in said(PAIR)


def test_the_draft_backend_inside_the_config(said) -> None:
    found = said(PAIR + "--speculative-config.attention_backend nope")
    assert found["--speculative-config.attention_backend nope"] == "wrong"


def test_a_budget_that_is_missing_is_missing(said) -> None:
    assert said(PAIR, version="0.26.0")["--max-num-batched-tokens"] == "missing"
    assert "--max-num-batched-tokens" not in said(PAIR + "--max-num-batched-tokens 32k",
                                                  version="0.26.0")  # fmt: skip
