"""A draft joined to the embedding and head of its target: it proposes tokens."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from dflash_deploy.speculative import joint
from dflash_deploy.speculative.cache import KVCache
from dflash_deploy.speculative.model import DraftModel
from dflash_deploy.speculative.rounded import RoundedProduct, can_round
from dflash_deploy.speculative.sampling import Chooser, Proposal
from dflash_deploy.speculative.target import Target
from dflash_deploy.speculative.types import Sampling

# A block is checked in full where the draft gives at least this chance to its first half being
# right. On the CPU 8 rows cost the target about 1.2 times 4 rows, and the demo draft's chances are
# honest: over 16 prompts any value from 0.15 to 0.4 gave the same speed, 0.25 the best.
WIDE_FROM = 0.25


class Proposer:
    """Stateless: a sequence's state is the draft's cache. The caller's draft stays as it is."""

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

    def open(self, capacity: int) -> KVCache:
        """The draft's cache for `capacity` positions, and room for a block behind them."""
        return self.draft.open(capacity + self._block)

    def commit(self, state: KVCache, features: Tensor, count: int) -> None:
        """Append the context of the first `count` rows; the others are written over later."""
        self.draft.add_context(state, features)
        state.length += count

    def propose(self, state: KVCache, anchor: int, limit: int, chooser: Chooser) -> Proposal:
        """Propose at least one token to follow `anchor`, and at most `limit`."""
        embedded = self._embedded.clone()
        embedded[:1] = self._target.embed(torch.tensor([anchor], device=self._target.device))
        scale = self.draft.config.embedding_scale
        hidden = self.draft(embedded if scale == 1 else embedded * scale, state)[1:]
        head = self._rounded or self._target.head
        logits = self.draft.shape_logits(head(hidden))
        proposal = self.draft.propose(hidden, logits, anchor, chooser)
        return proposal.first(self._count(proposal, limit))

    def can_share(self, chooser: Chooser) -> bool:
        """Whether sequences may draft in one pass: in 8 bits a neighbour changes what is proposed.

        That changes no greedy answer, but it does change what a seed draws. DFlash 2 mixes rows.
        """
        return chooser.greedy and self.draft.config.refinement is None

    def propose_together(self, drafts: Sequence[tuple[KVCache, int, int]]) -> list[Proposal]:
        """`propose` for each state, anchor and limit, of greedy sequences."""
        states, anchors, limits = zip(*drafts, strict=True)
        count, width = len(drafts), self._block
        embedded = self._embedded.repeat(count, 1, 1)
        embedded[:, 0] = self._target.embed(torch.tensor(anchors, device=self._target.device))
        rows = embedded.flatten(0, 1) * self.draft.config.embedding_scale
        hidden = joint.drafted(self.draft, rows, states).view(count, width, -1)[:, 1:]
        head = self._rounded or self._target.head
        logits = self.draft.shape_logits(head(hidden.flatten(0, 1)))
        best = self.draft.propose(hidden, logits, anchors[0], self._greedy)
        parts = zip(best.tokens.split(width - 1), best.peaks.split(width - 1), strict=True)
        proposals = [Proposal(tokens, peaks) for tokens, peaks in parts]
        return [p.first(self._count(p, n)) for p, n in zip(proposals, limits, strict=True)]

    def _count(self, proposal: Proposal, limit: int) -> int:
        """How many tokens to have checked.

        To keep sampling exact, whether a token is checked may depend on the draws before it and on
        no others: the chances up to the first token of the second half are all that is looked at.
        """
        narrow, wide = self.widths[0], self.widths[-1]
        if narrow < wide <= limit + 1:
            reach = float(proposal.peaks[:narrow].prod())
            return (wide if reach >= WIDE_FROM else narrow) - 1
        return min(limit, (wide if wide <= limit + 1 else narrow) - 1)


def widths(block: int, device: torch.device) -> tuple[int, ...]:
    """The numbers of rows worth checking at once: on a CPU half a block is cheaper than a block."""
    return (block // 2, block) if device.type == "cpu" and block >= 8 else (block,)
