"""A draft joined to the embedding and head of its target: it proposes tokens."""

from __future__ import annotations

import torch
from torch import Tensor

from dflash_deploy.speculative.cache import KVCache
from dflash_deploy.speculative.draft_head import QuantizedHead, quantizable
from dflash_deploy.speculative.model import DraftModel
from dflash_deploy.speculative.sampling import Chooser, Proposal
from dflash_deploy.speculative.target import Target


class Proposer:
    """Stateless: a sequence's state is the draft's cache."""

    def __init__(self, draft: DraftModel, target: Target) -> None:
        self._draft = draft.to(device=target.device, dtype=target.dtype)
        self._target = target
        masked = torch.tensor([draft.config.mask_token_id], device=target.device)
        self._mask_embedding = target.embed(masked)
        weight = target.head_weight()
        self._head = QuantizedHead(weight) if quantizable(weight) else target.head

    @property
    def taps(self) -> tuple[int, ...]:
        return self._draft.config.target_layer_ids

    def prepare(self, rows: int) -> None:
        self._draft.prepare(rows)

    def open(self, capacity: int) -> KVCache:
        return self._draft.open(capacity)

    def commit(self, state: KVCache, features: Tensor, count: int) -> None:
        """Append the context of the first `count` rows; the others are written over later."""
        self._draft.add_context(state, features[: state.capacity - state.length])
        state.length += count

    def propose(self, state: KVCache, anchor: int, count: int, chooser: Chooser) -> Proposal:
        """Propose `count` tokens to follow `anchor`."""
        start = torch.tensor([anchor], device=self._target.device)
        masks = self._mask_embedding.expand(count, -1)
        embedded = torch.cat((self._target.embed(start), masks))
        hidden = self._draft(embedded * self._draft.config.embedding_scale, state)[1:]
        logits = self._draft.shape_logits(self._head(hidden))
        return self._draft.propose(hidden, logits, anchor, chooser)
