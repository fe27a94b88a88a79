"""The arithmetic behind rules: what a condition cannot say by comparing values. Pure.

K is the number of draft tokens (block - 1), N the requests admitted at once, T vLLM's
`--max-num-batched-tokens`.
"""

from __future__ import annotations

from collections.abc import Callable

from packaging.version import Version

from dflash_deploy.draft_settings import (
    draft_length_is_above_config,
    draft_ranks_are_neither,
    schedule_is_malformed,
    schedule_rests,
    synthetic_acceptance_is_incomplete,
    watermark_is_not_for_drafts,
)
from dflash_deploy.engine_schema import Check
from dflash_deploy.kv_cache import layout
from dflash_deploy.sglang_pages import prefill_is_in_part_pages, track_interval_does_not_fit
from dflash_deploy.situation import Situation
from dflash_deploy.stretched import said_positions, yarn

_BEFORE_0_28, _BEFORE_0_33 = Version("0.28.0"), Version("0.33.0")


def budget_is_too_small(at: Situation) -> bool:
    """Whether vLLM refuses to start: T leaves no room to schedule anything.

    0.20 to 0.27 take (K-1) N off T and need something left; 0.28 to 0.32 need T > K, 0.33
    T > K+1. Source: vLLM config/vllm.py 0.26.0:1689, 0.28.0:1839, 0.31.0:2350, 0.33.0:2341.
    """
    k = (at.block_size or 1) - 1
    tokens, requests = _budget(at)
    if at.number("batched_tokens") and at.number("concurrency") and tokens < requests:
        return True  # on any release
    if at.version < _BEFORE_0_28:
        return tokens - (k - 1) * requests <= 0
    return tokens <= (k if at.version < _BEFORE_0_33 else k + 1)


def lora_budget_is_too_small(at: Situation) -> bool:
    """vLLM with adapters needs T >= N (K+1). Source: vLLM 0.33.0 config/lora.py, run."""
    tokens, requests = _budget(at)
    return "--enable-lora" in at.settings and tokens < requests * (at.block_size or 1)


def _budget(at: Situation) -> tuple[int, int]:
    """T and N as said, else vLLM's own defaults for the card (0.33.0 engine/arg_utils.py)."""
    large = at.architecture in ("hopper", "blackwell")
    tokens = {"hopper": 8192, "blackwell": 16384}.get(str(at.architecture), 2048)
    return (
        at.number("batched_tokens") or tokens,
        at.number("concurrency") or at.concurrency or (1024 if large else 256),
    )


def block_is_above_trained(at: Situation) -> bool:
    """A draft serves blocks up to the size it was trained with, never longer ones."""
    trained = at.draft.block_size if at.draft else None
    return bool(trained and at.block_size and at.block_size > trained)


def block_sizes_differ(at: Situation) -> bool:
    """SGLang's two options for the block must agree. Source: 0.5.23 speculative_hook.py."""
    one, other = at.number("block_size"), at.number("--speculative-dflash-block-size")
    return one is not None and other is not None and one != other


def active_are_above_admitted(at: Situation) -> bool:
    """vLLM runs at most as many requests as it admits. Source: 0.33.0 config/scheduler.py:340."""
    active, admitted = at.number("--max-num-active-seqs"), at.number("concurrency")
    most = admitted or at.concurrency
    return active is not None and most is not None and active > most


def cache_block_is_uneven(at: Situation) -> bool:
    """Tokens of a block of vLLM's KV cache. Source: 0.33.0 v1/attention/backends, selector run."""
    tokens = at.number("--block-size")
    return tokens is not None and tokens % 16 > 0


def context_is_above_config(at: Situation) -> bool:
    """Whether the target's config, as overridden, allows less than what is served."""
    allowed = said_positions(at.settings) or (at.target.context if at.target else None)
    return bool(allowed and at.context and at.context > allowed)


def context_is_above_draft(at: Situation) -> bool:
    allowed = at.draft.context if at.draft else None
    return bool(allowed and at.context and at.context > allowed)


def draft_heads_do_not_divide(at: Situation) -> bool:
    """Query heads divide by the ranks; KV heads divide, or every rank holds a copy of one."""
    ranks = max(at.tensor_parallel, 1)
    for layers in at.draft.layers if at.draft else []:
        if layers.heads and layers.heads % ranks:
            return True
        if layers.kv_heads and layers.kv_heads % ranks and ranks % layers.kv_heads:
            return True
    return False


def dp_attention_does_not_divide(at: Situation) -> bool:
    """SGLang: ranks divide by the copies of the attention. Source: 0.5.23 parallel_hook.py."""
    copies = at.number("--attn-dp-size") or (
        at.number("data_parallel") if "dp_attention" in at.settings else None)  # fmt: skip
    return bool(copies and at.tensor_parallel % copies)


def draft_is_in_several_groups(at: Situation) -> bool:
    """Whether vLLM's cache puts the draft's layers into more than one group.

    Its first model runner asserts that it is one. Seen: gpt-oss-20b on vLLM 0.26.0, H200,
    2026-11-28; v1/spec_decode/llm_base_proposer.py 0.23.0 to 0.29.0.
    """
    if at.target is None or at.draft is None or not at.target.layers or not at.draft.layers:
        return False
    if any(run.kind != "mla" and not run.head_dim for run in at.draft.layers):
        return False
    pool = layout(at.target.layers, at.draft.layers, ranks=max(at.tensor_parallel, 1), element=2)
    return pool.draft_groups > 1


def draft_window_is_below_block(at: Situation) -> bool:
    if "draft_window" not in at.settings:
        return False
    window = at.number("draft_window")
    return not window or bool(at.block_size and window < at.block_size)


def yarn_has_no_theta(at: Situation) -> bool:
    rope = yarn(at.settings)
    return rope is not None and "rope_theta" not in rope


def thinking_is_not_as_trained(at: Situation) -> bool:
    trained = at.draft.thinking if at.draft else None
    return bool(trained and at.thinking and trained != at.thinking)


def prompt_is_above_budget(at: Situation) -> bool:
    """Without chunked prefill vLLM wants T >= the context. Source: 0.33.0 config/scheduler.py."""
    if "--no-enable-chunked-prefill" not in at.settings or at.context is None:
        return False
    tokens, _ = _budget(at)
    return tokens < at.context


def context_parallel_ranks_do_not_fit(at: Situation) -> bool:
    """Ranks divide by the shares C; of heads H with KV heads G, ranks > G, C <= ranks / G, and C
    divides H / G. Source: vLLM 0.26.0 and 0.33.0 config/model.py, config/parallel.py.
    """
    shares, ranks = at.number("decode_context_parallel") or 1, at.tensor_parallel
    if shares == 1:
        return False
    own = [run for run in at.target.layers if run.heads and run.kv_heads] if at.target else []
    most = max((run.kv_heads or 1 for run in own), default=None)
    if ranks % shares or most is None:
        return ranks % shares > 0
    groups = {(run.heads or 1) // most for run in own if run.kv_heads == most}
    too_few = ranks <= most or shares > ranks // most
    return too_few or any(group % shares for group in groups)


def buffer_is_of_no_states(at: Situation) -> bool:
    """SGLang's buffer of recurrent states. Source: 0.5.23 srt/arg_groups/mamba_hook.py."""
    kinds = {run.kind for run in at.target.layers} if at.target else set()
    return bool(kinds) and "linear" not in kinds and "extra_buffer" in at.settings.get(
        "recurrent_state_cache", ())  # fmt: skip


CHECKS: dict[Check, Callable[[Situation], bool]] = {
    "active-above-admitted": active_are_above_admitted,
    "batched-tokens-budget": budget_is_too_small,
    "block-above-trained": block_is_above_trained,
    "block-sizes-differ": block_sizes_differ,
    "buffer-of-none": buffer_is_of_no_states,
    "cache-block-size": cache_block_is_uneven,
    "context-above-config": context_is_above_config,
    "context-above-draft": context_is_above_draft,
    "context-parallel-ranks": context_parallel_ranks_do_not_fit,
    "draft-heads-not-divisible": draft_heads_do_not_divide,
    "dp-attention-ranks": dp_attention_does_not_divide,
    "draft-in-several-groups": draft_is_in_several_groups,
    "draft-length-above-config": draft_length_is_above_config,
    "draft-ranks": draft_ranks_are_neither,
    "draft-window-below-block": draft_window_is_below_block,
    "lora-budget": lora_budget_is_too_small,
    "schedule-malformed": schedule_is_malformed,
    "synthetic-acceptance": synthetic_acceptance_is_incomplete,
    "schedule-rests": schedule_rests,
    "thinking-not-as-trained": thinking_is_not_as_trained,
    "prefill-pages": prefill_is_in_part_pages,
    "track-interval": track_interval_does_not_fit,
    "unchunked-prompt-above-budget": prompt_is_above_budget,
    "watermark-not-for-drafts": watermark_is_not_for_drafts,
    "yarn-without-theta": yarn_has_no_theta,
}
