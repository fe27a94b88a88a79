"""What an SGLang server with DFlash needs on each card, and the requests left room for. Pure.

By the source of SGLang 0.5.23; nothing here was fitted to a run, and one is 0.3% from it (Qwen3-8B
on an H200, 0.5.17: docs/memory.md). Sizes are GiB of one card. SGLang fixes a share of the card for
weights and cache (`--mem-fraction-static`); activations and graphs have the rest, by its own
constants (`reserve`).
"""

from __future__ import annotations

from math import inf

from dflash_deploy.memory import GIB, Demand, Fit
from dflash_deploy.schema import Draft, Target, Weights
from dflash_deploy.sglang_cache import pools

RUNTIME = 0.5
"""What CUDA takes before SGLang looks: 139.80 GiB of an H200, 2.01 to NCCL and 137.29 left
(server log in sgl-project/sglang#11716)."""
NCCL = 2.0
"""What several ranks take beside, in the same log of eight."""
IMAGES = 0.1
"""Kept for image embeddings (SGLANG_VLM_CACHE_SIZE_MB; mem_cache/kv_cache_configurator.py)."""
VISION = 0.95
"""Factor on the share for a model that sees images. SGLang lowers or raises it by the size of the
vision tower, to 0.76 or 0.9975 at most, which the registry does not hold."""
CARDS = ((20, 2048, 8, 8), (35, 4096, 48, 160), (60, 4096, 32, 160), (160, 8192, 256, 512),
         (inf, 16384, 512, 512))  # fmt: skip
"""Cards below so many GiB: tokens of a prefill chunk, requests of a decode graph on fewer than four
ranks, and on more (arg_groups/memory_hook.py)."""
CAPTURED = ((4, 32, 4), (48, 256, 16), (288, 512, 32), (576, 1024, 64), (1280, 4096, 256),
            (4608, 1 << 20, 512))  # fmt: skip
"""Token counts a prefill graph is captured for: first, last, step (cuda_graph_hook.py)."""


def fit(target: Target, weights: Weights, draft: Draft, card: float, demand: Demand) -> Fit | None:
    """The fit on cards of `card` GiB, as CUDA counts them; None where a size is not known.

    `demand.memory_fraction` is `--mem-fraction-static` (`static_fraction` when unset),
    `concurrency` is `--max-running-requests`, `prefix_caching` the radix cache, on unless told.
    Target and draft are loaded before the pools are sized (managers/scheduler.py), which get what
    of that share is left (mem_cache/kv_cache_configurator.py, _profile_available_bytes).
    """
    if (
        weights.in_memory is None
        or draft.in_memory is None
        or not target.layers
        or not draft.layers
    ):
        return None
    element = 1 if demand.kv_dtype == "fp8" else 2
    price = pools(target.layers, draft.layers, ranks=demand.ranks, element=element)
    if price is None:
        return None
    budget = card * demand.memory_fraction
    shared = weights.in_memory / demand.ranks
    proposer = draft.in_memory / demand.ranks
    taken = RUNTIME + (NCCL if demand.ranks > 1 else 0)
    passes = taken * demand.memory_fraction + (IMAGES if _sees(target) else 0)
    cache = budget - shared - proposer - passes
    requests = price.requests(cache * GIB, demand.context, demand.concurrency,
                              block=demand.block_size, prefixes=demand.prefix_caching)  # fmt: skip
    # states are reserved for all: a request's share is what the room divided by them all gives
    held = price.held(demand.block_size, prefixes=demand.prefix_caching) / GIB
    return Fit(budget, shared, proposer, passes, cache, cache / requests if requests else inf, held)


def prefill_chunk(card: float) -> int:
    """Tokens SGLang prefills at a time unless told."""
    return next(chunk for below, chunk, _, _ in CARDS if card < below)


def static_fraction(target: Target, card: float, demand: Demand) -> float:
    """The share SGLang takes for weights and cache when none is given."""
    fraction = round((card - reserve(target, card, demand)) / card, 3)
    return fraction * VISION if _sees(target) else fraction


def reserve(target: Target, card: float, demand: Demand) -> float:
    """What SGLang wants for activations and graphs (memory_hook.py, handle_gpu_memory_settings)."""
    chunk = max(demand.batched_tokens, 2048)
    mib = 512 + 1.5 * chunk + demand.ranks / 8 * 1024
    mib += 2 * min(_graph_requests(card, demand.ranks), demand.concurrency)
    mib += 1536 if _latent(target) else 8 * _captured(demand.batched_tokens)
    if card > 60:
        mib = max(mib, 10 * 1024)
    return mib / 1024


def _graph_requests(card: float, ranks: int) -> int:
    _, _, few, many = next(row for row in CARDS if card < row[0])
    return few if ranks < 4 else many


def _captured(chunk: int) -> int:
    """Prefill graphs for chunks of so many tokens."""
    return sum(len(range(first, min(last, chunk) + 1, step)) for first, last, step in CAPTURED)


def _latent(target: Target) -> bool:
    return any(run.kind == "mla" for run in target.layers)


def _sees(target: Target) -> bool:
    """Whether the class takes images; SGLang lists them by name (configs/model_config.py)."""
    return target.architecture.endswith("ForConditionalGeneration")
