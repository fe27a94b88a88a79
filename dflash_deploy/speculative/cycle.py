"""One draft-verify cycle as steps of tensors alone, so that a GPU can record and repeat them.

No step asks the device for a number, and none depends on how long a sequence is other than through
tensors and `reach`. All that a step tells is in buffers that stay where they are. The same code
runs on a CPU, unrecorded.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dflash_deploy.speculative.decoder_target import DecoderTarget
from dflash_deploy.speculative.layers import Heads
from dflash_deploy.speculative.model import DraftModel
from dflash_deploy.speculative.rope import Rope
from dflash_deploy.speculative.sampling import Chooser
from dflash_deploy.speculative.slots import SlotCache, SlotPlace, Span
from dflash_deploy.speculative.types import Sampling

IDLE = -1
"""As a slot's `limits`: nothing is committed, not even the target's own token."""


class Buffers:
    """What cycles read and write, a row a slot.

    lengths: positions stored. anchors: the last token committed, not yet stored. limits: the most
    draft tokens that may be accepted. block [width]: anchor and proposal. told [width + 1]: the
    target's best token behind each row of the block, and how many draft tokens were accepted.
    """

    def __init__(self, slots: int, width: int, target: DecoderTarget, hidden: int) -> None:
        device, vocabulary = target.device, target.shape.vocab_size
        self.width = width
        self.lengths = torch.zeros(slots, dtype=torch.long, device=device)
        self.anchors = torch.zeros_like(self.lengths)
        self.limits = torch.full_like(self.lengths, IDLE)
        self.block = torch.zeros(slots, width, dtype=torch.long, device=device)
        self.told = torch.zeros(slots, width + 1, dtype=torch.long, device=device)
        shape = (slots, width, vocabulary)
        self.logits = torch.zeros(shape, dtype=target.dtype, device=device)
        # what a sampled proposal is drawn from
        self.hidden = torch.zeros(slots, width - 1, hidden, dtype=target.dtype, device=device)
        self.scores = torch.zeros(slots, width - 1, vocabulary, dtype=target.dtype, device=device)


class Cycle:
    """The steps of one pair. `slots` is a range of neighbouring ones that step together."""

    def __init__(
        self,
        target: DecoderTarget,
        draft: DraftModel | None,
        width: int,
        *,
        slots: int,
        capacity: int,
    ) -> None:
        self._target, self._draft = target, draft
        self._taps = () if draft is None else draft.config.target_layer_ids
        self.capacity = capacity
        self.buffers = Buffers(slots, width, target, target.shape.hidden_size)
        self.stored = self._cache(target.shape.layers, target.heads, slots)
        self._angles = _table(target.rope, capacity, target.device)
        self.context: SlotCache | None = None
        if draft is not None:
            self.context = self._cache(draft.config.layers, draft.heads, slots)
            self._draft_angles = _table(draft.rope, capacity, target.device)
            masks = torch.full((width,), draft.config.mask_token_id, device=target.device)
            self._masked = target.embed(masks).clone()
            self._greedy = Chooser(Sampling(1, seed=0), target.device)

    def propose(self, slots: range, reach: int) -> None:
        """Put the draft's best tokens into `block`; fill `hidden` and `scores` for who samples."""
        draft, context, buffers = self._draft, self.context, self.buffers
        if draft is None or context is None:
            return
        span = self._span(slots, reach)
        hidden = self._drafted(draft, context, span, _rows(buffers.anchors, slots))
        scores = draft.shape_logits(self._target.head(hidden.flatten(0, 1)))
        scores = scores.view(span.count, span.width - 1, -1)
        _rows(buffers.hidden, slots).copy_(hidden)
        _rows(buffers.scores, slots).copy_(scores)
        for row, slot in enumerate(slots):
            anchor = buffers.anchors[slot]
            best = draft.propose(hidden[row], scores[row], anchor, self._greedy)
            buffers.block[slot, 1:].copy_(best.tokens)

    def verify(self, slots: range, reach: int) -> None:
        """Run the target on `block`, fill `logits` and `told`, and commit as greedy decoding does.

        Who samples sets `lengths` and `anchors` itself afterwards.
        """
        buffers, span = self.buffers, self._span(slots, reach)
        block, lengths = _rows(buffers.block, slots), _rows(buffers.lengths, slots)
        block[:, 0].copy_(_rows(buffers.anchors, slots))
        place = self._place(self.stored, self._angles, span, causal=True, window=None)
        last, features = self._target.run(block.flatten(), place, self._taps)
        logits = self._target.head(self._target.norm(last)).view(span.count, span.width, -1)
        _rows(buffers.logits, slots).copy_(logits)
        best = logits.argmax(-1)
        right = (block[:, 1:] == best[:, :-1]).long().cumprod(1).sum(1)
        accepted = torch.minimum(right, _rows(buffers.limits, slots))
        told = _rows(buffers.told, slots)
        told[:, :-1].copy_(best)
        told[:, -1].copy_(accepted)
        if features is not None:
            self._add_context(features, span)
        own = best.gather(1, accepted.clamp(min=0)[:, None])[:, 0]
        _rows(buffers.anchors, slots).copy_(own)
        lengths.add_(accepted + 1)

    def _drafted(
        self, draft: DraftModel, context: SlotCache, span: Span, anchors: Tensor
    ) -> Tensor:
        """Final hidden states [slots, width - 1, hidden_size] in place of the masks."""
        embedded = self._masked.repeat(span.count, 1, 1)
        embedded[:, 0].copy_(self._target.embed(anchors))
        x = embedded.flatten(0, 1) * draft.config.embedding_scale
        places: dict[tuple[bool, int | None], SlotPlace] = {}
        for layer, causal, window in zip(
            draft.layers, draft.config.causal, draft.config.windows, strict=True
        ):
            kind = (causal, window)
            if kind not in places:
                angles = self._draft_angles
                places[kind] = self._place(context, angles, span, causal=causal, window=window)
            x = layer(x, places[kind])
        return draft.norm(x).view(span.count, span.width, -1)[:, 1:]

    def _add_context(self, features: Tensor, span: Span) -> None:
        draft, context = self._draft, self.context
        if draft is None or context is None:
            return
        angles = self._draft_angles[span.positions.flatten()]
        keys, values = draft.context(draft.hidden_norm(draft.fc(features)), angles)
        stored = span.stored(self.capacity)
        # [layers, kv_heads, rows, head_dim] to the cache's order
        context.keys.flatten(1, 2).index_copy_(1, stored, keys.transpose(1, 2))
        context.values.flatten(1, 2).index_copy_(1, stored, values.transpose(1, 2))

    def _cache(self, layers: int, heads: Heads, slots: int) -> SlotCache:
        target = self._target
        return SlotCache(
            layers, slots, self.capacity, heads, dtype=target.dtype, device=target.device
        )

    def _span(self, slots: range, reach: int) -> Span:
        return Span(slots.start, _rows(self.buffers.lengths, slots), self.buffers.width, reach)

    def _place(
        self, cache: SlotCache, angles: Tensor, span: Span, *, causal: bool, window: int | None
    ) -> SlotPlace:
        mask = span.mask(cache.heads.groups, causal=causal, window=window, dtype=cache.keys.dtype)
        positions = span.positions.flatten()
        return SlotPlace(angles[positions], cache, span, span.stored(cache.capacity), mask)


def _rows(buffer: Tensor, slots: range) -> Tensor:
    return buffer[slots.start : slots.stop]


def _table(rope: Rope, capacity: int, device: torch.device) -> Tensor:
    # a copy: the rope's own table moves when a longer sequence comes
    return rope.angles(0, capacity, device).clone()
