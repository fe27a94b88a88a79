"""A draft joined to the embedding and head of its target: it proposes tokens."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from dflash_deploy.speculative import joint
from dflash_deploy.speculative.cache import KVCache
from dflash_deploy.speculative.model import DraftModel
from dflash_deploy.speculative.pace import Pace
from dflash_deploy.speculative.rounded import RoundedProduct, can_round
from dflash_deploy.speculative.sampling import Chooser, Proposal
from dflash_deploy.speculative.target import Target
from dflash_deploy.speculative.types import Sampling

# features of plain steps that wait for the next block: joined, they cost little; all of a long
# answer's would take memory
WAITING_AT_MOST = 64


class DraftState:
    """One sequence's draft cache, and the features of tokens that are committed but not in it."""

    def __init__(self, cache: KVCache) -> None:
        self.cache = cache
        self.waiting: list[Tensor] = []


Wanted = tuple[DraftState, int, int, Pace]
"""A proposal for this state: behind which anchor, of how many tokens at most, at whose pace."""


class Proposer:
    """Stateless: a sequence's state is a `DraftState`. The caller's draft stays as it is."""

    def __init__(self, draft: DraftModel, target: Target, block: int) -> None:
        self.draft = draft.joined(target.device, target.dtype)
        self._target = target
        self._block = block
        masked = torch.full((block,), draft.config.mask_token_id, device=target.device)
        self._embedded = target.embed(masked).clone()
        weight = target.head_weight()
        self._rounded = RoundedProduct(weight) if can_round(weight) else None
        self._greedy = Chooser(Sampling(1, seed=0), target.device)
        self.widths = widths(block, target.device)
        self.draft.prepare(self.widths)
        target.prepare(self.widths)

    @property
    def taps(self) -> tuple[int, ...]:
        return self.draft.config.target_layer_ids

    def open(self, capacity: int) -> DraftState:
        """A state for `capacity` positions, with room for a block behind them."""
        return DraftState(self.draft.open(capacity + self._block))

    def commit(self, state: DraftState, features: Tensor, count: int) -> None:
        """Append the context of the first `count` rows; the others are written over later."""
        self._catch_up(state)
        self.draft.add_context(state.cache, features)
        state.cache.length += count

    def keep(self, state: DraftState, features: Tensor) -> None:
        """Append these rows when a block needs them: after a plain step that may be never."""
        state.waiting.append(features)
        if len(state.waiting) == WAITING_AT_MOST:
            self._catch_up(state)

    def _catch_up(self, state: DraftState) -> None:
        if state.waiting:
            features = torch.cat(state.waiting)
            state.waiting.clear()
            self.commit(state, features, len(features))

    def propose(
        self, state: DraftState, anchor: int, limit: int, chooser: Chooser, pace: Pace
    ) -> Proposal:
        """Propose at least one token to follow `anchor`, and at most `limit`."""
        self._catch_up(state)
        embedded = self._embedded.clone()
        embedded[:1] = self._target.embed(torch.tensor([anchor], device=self._target.device))
        scale = self.draft.config.embedding_scale
        hidden = self.draft(embedded if scale == 1 else embedded * scale, state.cache)[1:]
        head = self._rounded or self._target.head
        logits = self.draft.shape_logits(head(hidden))
        proposal = self.draft.propose(hidden, logits, anchor, chooser)
        return self._checked(proposal, limit, pace)

    def can_share(self, chooser: Chooser) -> bool:
        """Whether sequences may draft in one pass: in 8 bits a neighbour changes what is proposed.

        That changes no greedy answer, but it does change what a seed draws. DFlash 2 mixes rows.
        """
        return chooser.greedy and self.draft.config.refinement is None

    def propose_together(self, drafts: Sequence[Wanted]) -> list[Proposal]:
        """`propose` for each state, anchor, limit and pace, of greedy sequences."""
        states, anchors, limits, paces = zip(*drafts, strict=True)
        for state in states:
            self._catch_up(state)
        count, width = len(drafts), self._block
        embedded = self._embedded.repeat(count, 1, 1)
        embedded[:, 0] = self._target.embed(torch.tensor(anchors, device=self._target.device))
        rows = embedded.flatten(0, 1) * self.draft.config.embedding_scale
        caches = [state.cache for state in states]
        hidden = joint.drafted(self.draft, rows, caches).view(count, width, -1)[:, 1:]
        head = self._rounded or self._target.head
        logits = self.draft.shape_logits(head(hidden.flatten(0, 1)))
        best = self.draft.propose(hidden, logits, anchors[0], self._greedy)
        parts = zip(best.tokens.split(width - 1), best.peaks.split(width - 1), strict=True)
        proposals = [Proposal(tokens, peaks) for tokens, peaks in parts]
        return [
            self._checked(proposal, limit, pace)
            for proposal, limit, pace in zip(proposals, limits, paces, strict=True)
        ]

    def _checked(self, proposal: Proposal, limit: int, pace: Pace) -> Proposal:
        """As much of it as the target shall check."""
        seen = proposal.peaks[: self.widths[0]].tolist()
        return proposal.first(pace.checks(seen, self.widths, limit))


def widths(block: int, device: torch.device) -> tuple[int, ...]:
    """The numbers of rows worth checking at once: on a CPU half a block is cheaper than a block."""
    return (block // 2, block) if device.type == "cpu" and block >= 8 else (block,)
