"""A step's training data: sequences side by side, and blocks drawn from their answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import torch
from torch import Tensor


class Answer(msgspec.Struct, frozen=True):
    """One conversation in tokens, as `speculators prepare-data` reads them too."""

    id: int
    input_ids: list[int]
    loss_mask: list[int]
    """1 where the target wrote the token."""


@dataclass(frozen=True)
class Batch:
    """ids and answered are [sequences, length]; anchors is [sequences, anchors], -1 for none."""

    ids: Tensor
    answered: Tensor
    anchors: Tensor

    def to(self, device: torch.device) -> Batch:
        """On a GPU, without waiting for what it is doing."""
        if device.type != "cuda":
            return Batch(*(each.to(device) for each in self._tensors))
        return Batch(*(each.pin_memory().to(device, non_blocking=True) for each in self._tensors))

    def cut(self, count: int) -> list[Batch]:
        """Equal parts, each with some of the sequences."""
        cut = (each.chunk(count) for each in self._tensors)
        return [Batch(*parts) for parts in zip(*cut, strict=True)]

    def before(self, tokens: Tensor) -> Tensor:
        """What stands before each of the blocks' `tokens` [sequences, anchors, block - 1]."""
        first = self.ids.gather(1, self.anchors.clamp(min=0))
        return torch.cat((first[..., None], tokens[..., :-1]), dim=2)

    def copy(self) -> Batch:
        return Batch(*(each.clone() for each in self._tensors))

    def take(self, other: Batch) -> None:
        """The other's data, in place."""
        for mine, theirs in zip(self._tensors, other._tensors, strict=True):
            mine.copy_(theirs)

    @property
    def _tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.ids, self.answered, self.anchors


ALIKE = 32
"""Batches whose sequences are sorted by length together: short ones do not wait for long ones."""
ROUND = 64
"""Lengths are multiples of it, so that the shapes of steps come again."""


class Feed:
    """The data of each step: the same whenever and wherever it is asked for."""

    def __init__(self, answers: Sequence[Answer], *, size: int, length: int, seed: int) -> None:
        self._answers, self._size, self._length, self._seed = answers, size, length, seed
        self._lengths = torch.tensor([len(answer.input_ids) for answer in answers])
        self._epoch, self._order = -1, torch.empty(0, dtype=torch.long)

    def picked(self, step: int) -> list[int]:
        """Which sequences step `step` sees. Each is seen once in a pass over the data."""
        count = len(self._answers)
        places = range(step * self._size, (step + 1) * self._size)
        return [int(self._pass(place // count)[place % count]) for place in places]

    def at(self, step: int, anchors: int) -> Batch:
        """What step `step` is trained on: blocks drawn from its sequences."""
        chance = torch.Generator().manual_seed(self._seed * 1_000_003 + step + 1)
        ids, answered = filled([self._answers[i] for i in self.picked(step)], self._length)
        return Batch(ids, answered, draw(answered, anchors, chance))

    def _pass(self, epoch: int) -> Tensor:
        if epoch != self._epoch:
            self._epoch, self._order = epoch, self.order(epoch)
        return self._order

    def order(self, epoch: int) -> Tensor:
        """The sequences of one pass: at random, and those of a batch about equally long."""
        chance = torch.Generator().manual_seed(self._seed * 1_000_003 + epoch)
        shuffled = torch.randperm(len(self._answers), generator=chance)
        sorted_here = [
            part[self._lengths[part].argsort(stable=True)]
            for part in shuffled.split(self._size * ALIKE)
        ]
        batches = torch.cat(sorted_here).split(self._size)
        return torch.cat([batches[i] for i in torch.randperm(len(batches), generator=chance)])


def filled(rows: Sequence[Answer], length: int) -> tuple[Tensor, Tensor]:
    """ids and answered [sequences, length] of answers cut to `length`, filled up at the end."""
    longest = min(max(len(row.input_ids) for row in rows), length)
    width = -(-longest // ROUND) * ROUND
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    answered = torch.zeros(len(rows), width, dtype=torch.bool)
    for index, row in enumerate(rows):
        cut = row.input_ids[:longest]
        ids[index, : len(cut)] = torch.tensor(cut)
        answered[index, : len(cut)] = torch.tensor(row.loss_mask[:longest], dtype=torch.bool)
    return ids, answered


def draw(answered: Tensor, count: int, chance: torch.Generator) -> Tensor:
    """Random anchors [sequences, count]: tokens of the answer that another one follows."""
    following = torch.zeros_like(answered)
    following[:, :-1] = answered[:, 1:]
    weight = torch.rand(answered.shape, generator=chance).masked_fill(~(answered & following), -1)
    best = weight.topk(min(count, answered.shape[1]), dim=1)
    return best.indices.masked_fill(best.values < 0, -1).sort(dim=1).values


def positions(anchors: Tensor, block: int) -> Tensor:
    """The places [sequences, anchors * block] of all blocks' rows."""
    return (anchors.clamp(min=0)[..., None] + torch.arange(block, device=anchors.device)).flatten(1)


def visible(anchors: Tensor, block: int, context: int) -> Tensor:
    """What a block's row may see [sequences, 1, anchors * block, context + anchors * block].

    The context before its anchor, and its own block in both directions.
    """
    device = anchors.device
    owner = torch.arange(anchors.shape[1], device=device).repeat_interleave(block)
    before = torch.arange(context, device=device) < anchors[:, owner, None]
    own = (owner[:, None] == owner).expand(len(anchors), -1, -1)
    return torch.cat((before, own), dim=2)[:, None]


def masked(one: Batch, block: int, mask_token: int) -> Tensor:
    """The blocks' tokens [sequences, anchors * block] before anything is drafted."""
    ids = torch.full((*one.anchors.shape, block), mask_token, device=one.ids.device)
    ids[..., 0] = one.ids.gather(1, one.anchors.clamp(min=0))
    return ids.flatten(1)


def drafted(one: Batch, block: int, weights: Tensor) -> tuple[Tensor, Tensor]:
    """What the blocks should say, and how much each token counts: `weights` [block - 1] by place.

    Both are [sequences, anchors, block - 1]. A place behind the answer's end counts nothing.
    """
    width = one.ids.shape[1]
    places = positions(one.anchors, block).unflatten(1, (-1, block))[..., 1:]
    inside = (places < width) & (one.anchors >= 0)[..., None]
    flat = places.clamp(max=width - 1).flatten(1)
    tokens = one.ids.gather(1, flat).view(places.shape)
    counted = inside & one.answered.gather(1, flat).view(places.shape)
    return tokens, counted * weights
