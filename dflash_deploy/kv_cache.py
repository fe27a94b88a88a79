"""How vLLM lays out its cache for a target and its draft: what one request takes of it. Pure.

vLLM has one pool of blocks. Every layer keeps pages of one size; layers that keep their cache alike
are cut into groups of equally many layers, and a block holds one page of each layer of a group.
Source: vLLM 0.26.0 v1/core/kv_cache_utils.py (the same rule in 0.23.0 to 0.33.0),
v1/kv_cache_interface.py, platforms/interface.py. Bytes and tokens are of one card.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import ceil

from dflash_deploy.schema import Layers

BLOCK = 16
"""Tokens of a page, unless a recurrent state asks for longer ones."""
IN_FLIGHT = 2
"""Batches scheduled and not settled: two with asynchronous scheduling, the default."""
SPLIT = 1.5
"""Kinds of layers that differ by less than this in number are padded to one group size."""


@dataclass(frozen=True)
class Kind:
    """Layers that keep their cache alike."""

    name: str
    """full, mla, sliding or linear."""
    count: int
    page: int
    """Bytes of one page of one layer."""
    tokens: int
    """Tokens of a page; for a recurrent state the tokens between two kept states."""
    window: int = 0
    shape: tuple[int | None, int | None] = (None, None)
    """KV heads and their size: layers of another shape are another kind."""
    drafts: bool = False
    """Whether layers of the draft are among them."""


@dataclass(frozen=True)
class Layout:
    """The pool: what a block costs, and how many blocks a request takes."""

    block_bytes: int
    """All pages that one block stands for."""
    groups: tuple[tuple[Kind, int], ...]
    """Each kind of layers, and the groups it was cut into."""

    def blocks(self, context: int, batched_tokens: int, states: int) -> int:
        """Blocks a request of `context` tokens takes at most; `states` are its recurrent ones."""
        return sum(
            groups * _blocks(kind, context, batched_tokens, states) for kind, groups in self.groups
        )

    @property
    def draft_groups(self) -> int:
        """Groups that hold layers of the draft."""
        return sum(groups for kind, groups in self.groups if kind.drafts)

    def state_bytes(self, states: int) -> int:
        """What of a request is recurrent states: of a short one as of a long one."""
        groups = sum(groups for kind, groups in self.groups if kind.name == "linear")
        return groups * states * self.block_bytes

    def request_bytes(self, context: int, batched_tokens: int, states: int) -> int:
        return self.blocks(context, batched_tokens, states) * self.block_bytes


def layout(
    target: Iterable[Layers], draft: Iterable[Layers], *, ranks: int, element: float,
    drafted: int = 0,
) -> Layout:  # fmt: skip
    """The pool of a target and a draft on one of `ranks` cards; `element` bytes a value.

    Every recurrent state has room for the inputs of `drafted` tokens beside its own window
    (vLLM 0.26.0 model_executor/layers/mamba/mamba_utils.py).
    """
    kinds = list(_kinds([*target], [*draft], ranks, element, drafted))
    full = [kind for kind in kinds if kind.name in ("full", "mla")]
    if len(full) == len(kinds):
        # one group, in which layers may have pages of different sizes
        size = sum(kind.count * kind.page for kind in kinds)
        whole = Kind("full", 1, size, BLOCK, drafts=any(kind.drafts for kind in kinds))
        return Layout(whole.page, ((whole, 1),))
    page = max(kind.page for kind in kinds)
    kinds = _merged([_with_page(kind, page) for kind in kinds])
    size = _group_size([kind.count for kind in kinds])
    return Layout(size * page, tuple((kind, ceil(kind.count / size)) for kind in kinds))


def _group_size(counts: list[int]) -> int:
    least, most = min(counts), max(counts)
    return most if most < least * SPLIT else least


def _kinds(
    target: list[Layers], draft: list[Layers], ranks: int, element: float, drafted: int
) -> Iterator[Kind]:
    """Each run of layers with its page; a recurrent state makes the target's pages longer."""
    state = next((x for x in target if x.kind == "linear"), None)
    tokens = BLOCK
    if state and state.state_bytes:
        grown = state.state_bytes + drafted * (state.conv_bytes or 0)
        per_layer = grown / state.count / ranks
        full = next((x for x in target if x.kind == "full"), None)
        token = token_bytes(full, ranks, element) if full else 0
        tokens = BLOCK * ceil(per_layer / token / BLOCK) if token else BLOCK
        yield Kind("linear", state.count, round(token * tokens) or ceil(per_layer), tokens)
    for number, run in enumerate((*target, *draft)):
        if run.kind != "linear":
            page = round(token_bytes(run, ranks, element) * tokens)
            shape = (run.kv_heads, run.head_dim)
            yield Kind(run.kind, run.count, page, tokens, run.window or 0, shape,
                       number >= len(target))  # fmt: skip


def token_bytes(run: Layers, ranks: int, element: float) -> float:
    """One layer, one token: K and V of the heads a card holds, or one latent, never divided."""
    if run.latent_dim:
        return run.latent_dim * element
    return 2 * max(1, (run.kv_heads or 1) // ranks) * (run.head_dim or 0) * element


def _with_page(kind: Kind, page: int) -> Kind:
    """Smaller pages hold more tokens until all pages are of one size; a state's page is padded."""
    tokens = kind.tokens if kind.name == "linear" else kind.tokens * (page // kind.page)
    return replace(kind, page=page, tokens=tokens)


def _merged(kinds: list[Kind]) -> list[Kind]:
    """Layers of target and draft that keep the same are one kind."""
    found: dict[object, Kind] = {}
    for kind in kinds:
        key = (kind.name, kind.tokens, kind.window, kind.shape)
        seen = found.get(key)
        both = replace(kind, count=kind.count + seen.count, drafts=kind.drafts or seen.drafts) if (
            seen) else kind  # fmt: skip
        found[key] = both
    return list(found.values())


def _blocks(kind: Kind, context: int, batched_tokens: int, states: int) -> int:
    if kind.name == "linear":
        return states
    if kind.name == "sliding":
        held = min(kind.window - 1 + IN_FLIGHT * batched_tokens, context)
        return ceil(held / kind.tokens) + 1
    return ceil(context / kind.tokens)
