"""How SGLang divides a card's room among tokens and recurrent states. Pure.

The draft has a pool of its own that follows the target's token for token, so both are paid by one
price a token; recurrent states are reserved first, whether requests run or not. By the source of
SGLang 0.5.23, not measured; where older releases differ is in docs/memory.md. Pages (1 token, 64 or
128 by the backend) round a pool down by less than one page and are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dflash_deploy.kv_cache import token_bytes
from dflash_deploy.schema import Layers

SLIDING = 0.8
"""Tokens of a sliding layer for each of a full one (arg_groups/fields/schedule.py)."""
STATES = 0.9
"""Recurrent states for each byte of tokens (`--mamba-full-memory-ratio`, the same file)."""
SLOTS = 5
"""States a request takes with a prefix cache: 3, and 2 that track prefixes while steps overlap
(mem_cache/kv_cache_configurator.py, _calculate_mamba_ratio)."""


@dataclass(frozen=True)
class Pools:
    """What a card of one rank pays for a target and its draft, in bytes."""

    token: float
    """One token in the layers of target and draft."""
    state: float = 0
    """One recurrent state of all linear layers; 0 for a target without."""
    window: int | None = None
    """What the sliding layers of the target see."""

    def held(self, block: int, *, prefixes: bool) -> float:
        """Recurrent states of one request: its slots, and one for each token of a block."""
        return self.state * ((SLOTS if prefixes else 1) + block)

    def requests(
        self, room: float, context: int, running: int, *, block: int, prefixes: bool
    ) -> float:
        """Requests of `context` tokens at once in `room` bytes, `running` being admitted."""
        states = _states(room, self.state, running, block, prefixes) if self.state else None
        tokens = (room - (states.size if states else 0)) / self.token
        most = [tokens / context]
        if self.window:
            most.append(tokens * SLIDING / min(context, self.window))
        if states:
            most.append(states.requests)
        return max(0.0, min(most))


def pools(
    target: Sequence[Layers], draft: Sequence[Layers], *, ranks: int, element: float
) -> Pools | None:
    """The prices on one of `ranks` cards, `element` bytes a value; None where a size is missing.

    pool_configurator.py of model_executor: DefaultPoolConfigurator adds target and draft,
    HybridSWAPoolConfigurator counts the target's sliding layers by their share of tokens; a sliding
    layer of the draft holds every token. kv_cache_configurator.py: states of one request, divided
    by the ranks as the heads are (configs/mamba_utils.py).
    """
    if not all(_known(run) for run in (*target, *draft)):
        return None
    token = sum(_share(run) * run.count * token_bytes(run, ranks, element)
                for run in target if run.kind != "linear")  # fmt: skip
    token += sum(run.count * token_bytes(run, ranks, element) for run in draft)
    state = sum(run.state_bytes or 0 for run in target) / ranks
    return Pools(token, state, next((run.window for run in target if run.kind == "sliding"), None))


def _known(run: Layers) -> bool:
    if run.kind == "linear":
        return run.state_bytes is not None
    return run.latent_dim is not None or None not in (run.kv_heads, run.head_dim)


def _share(run: Layers) -> float:
    return SLIDING if run.kind == "sliding" else 1


@dataclass(frozen=True)
class _States:
    """What is reserved for recurrent states before tokens get the rest."""

    requests: int
    """The most that run at once; below 1 the server refuses to start."""
    size: float


def _states(room: float, state: float, running: int, block: int, prefixes: bool) -> _States:
    """kv_cache_configurator.py, _handle_max_mamba_cache; memory_pool.py keeps one spare of each.

    Beside the slots, each request that runs has a state for every token of a block under
    verification. The budget counts those as whole states; memory_pool.py stores a little less.
    """
    if prefixes:
        share = room * STATES / (1 + STATES)
        slots = int((share - state * (1 + block)) // (state * (1 + block / SLOTS)))
        most = max(0, slots // SLOTS)
    else:
        slots = most = running
    verified = min(running, most) + 1
    return _States(most, state * (slots + 1 + verified * block))
