"""What a vLLM server needs on each card, and how many requests are left room for. Pure.

Sizes are GiB of one card. The cache layout is that of `kv_cache.py`; what a pass needs beside
weights and cache was fitted to what vLLM 0.26.0 reported on H200 cards (docs/memory.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dflash_deploy.kv_cache import layout
from dflash_deploy.schema import Draft, KvDtype, Layers, Target, Weights

GIB = 2**30
UTILIZATION = 0.92
"""vLLM's share of a card, unless told (`--gpu-memory-utilization`, 0.33.0 config/cache.py)."""
ACTIVATION = 24.7
"""Bytes a scheduled token and hidden unit at a pass's peak: 3.09 GiB at 32,768 tokens x 4096."""
RECURRENT = 80.0
"""The same in layers of linear attention, whose prefill keeps the states of each chunk: 2.73 GiB at
9,088 tokens x 4096, 3.3 GiB at 8,528 x 5120. The scores come after that peak, and are below it."""
LOGITS = 6
"""Bytes a row and word: fp32 scores and a bf16 copy, for 1 + K rows of every request."""
GRAPHS = 4.46
"""What the first model runner set aside for CUDA graphs: gpt-oss-120b, 64 requests, 0.26.0."""
RUNTIME = 0.25
"""What CUDA and the engine keep for themselves beside torch's pool."""


@dataclass(frozen=True)
class Demand:
    """What is asked of the cards."""

    context: int
    concurrency: int
    block_size: int
    batched_tokens: int
    ranks: int = 1
    kv_dtype: KvDtype = "auto"
    memory_fraction: float = UTILIZATION
    prefix_caching: bool = False
    first_runner: bool = False
    """vLLM's first model runner takes what it expects of CUDA graphs off the cache."""


@dataclass(frozen=True)
class Fit:
    """The parts of a card, and the requests of full context that run at once."""

    budget: float
    target: float
    draft: float
    passes: float
    """Of the budget: activations, logits and the runtime; on SGLang the runtime alone."""
    cache: float
    request: float
    """What one request of full context takes of the cache at most, reserves included."""
    states: float = 0.0
    """What recurrent states take of it, and of a shorter one as well."""

    @property
    def requests(self) -> float:
        """Requests of full context at once; below 1 the server does not start."""
        return self.cache / self.request if self.request else 0.0

    @property
    def fits(self) -> bool:
        return self.requests >= 1


def fit(target: Target, weights: Weights, draft: Draft, card: float, demand: Demand) -> Fit | None:
    """The fit on cards of `card` GiB, as CUDA counts them; None where a size is not known."""
    if weights.in_memory is None or draft.in_memory is None:
        return None
    if not (measured(target.layers) and measured(draft.layers)):
        return None
    if target.hidden_size is None or target.vocab_size is None:
        return None
    budget = card * demand.memory_fraction
    shared = weights.in_memory / demand.ranks
    proposer = draft.in_memory / demand.ranks
    recurrent = any(run.kind == "linear" for run in target.layers)
    passes = _passes(target.hidden_size, target.vocab_size, demand, recurrent=recurrent)
    pool = layout(target.layers, draft.layers, ranks=demand.ranks,
                  element=1 if demand.kv_dtype == "fp8" else 2,
                  drafted=demand.block_size - 1)  # fmt: skip
    # 1 + K recurrent states a request, one more where prefixes are kept
    states = demand.block_size + demand.prefix_caching
    request = pool.request_bytes(demand.context, demand.batched_tokens, states) / GIB
    cache = budget - shared - proposer - passes
    return Fit(budget, shared, proposer, passes, cache, request, pool.state_bytes(states) / GIB)


def measured(layers: Sequence[Layers]) -> bool:
    """Whether what each layer keeps of a token, or of a request, is known.

    Recurrent states are kept in pages of full attention, which has to be there.
    """
    kinds = {run.kind for run in layers}
    return bool(kinds) and not ("linear" in kinds and "full" not in kinds) and all(
        run.state_bytes if run.kind == "linear" else run.latent_dim or (
            run.kv_heads and run.head_dim)
        for run in layers
    )  # fmt: skip


def _passes(hidden: int, vocabulary: int, demand: Demand, *, recurrent: bool) -> float:
    """Not divided by the ranks: every card sees every token, and one of them all the scores."""
    units = demand.batched_tokens * hidden
    scores = demand.concurrency * demand.block_size * vocabulary * LOGITS
    plain = units * ACTIVATION + scores
    peak = max(plain, units * RECURRENT) if recurrent else plain
    return peak / GIB + RUNTIME + (GRAPHS if demand.first_runner else 0)
