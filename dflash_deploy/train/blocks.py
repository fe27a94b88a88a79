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


def order(count: int, epoch: int, seed: int) -> list[int]:
    """The sequences of one pass over the data: the same whenever and wherever it is asked for."""
    chance = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    return torch.randperm(count, generator=chance).tolist()


def picked(count: int, step: int, batch: int, seed: int) -> list[int]:
    """Which sequences step `step` sees."""
    places = range(step * batch, (step + 1) * batch)
    epochs = {place // count: order(count, place // count, seed) for place in places}
    return [epochs[place // count][place % count] for place in places]


def batch(
    answers: Sequence[Answer], step: int, *, size: int, anchors: int, length: int, seed: int
) -> Batch:
    """What step `step` is trained on."""
    rows = [answers[index] for index in picked(len(answers), step, size, seed)]
    width = min(max(len(row.input_ids) for row in rows), length)
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    answered = torch.zeros(len(rows), width, dtype=torch.bool)
    for index, row in enumerate(rows):
        cut = row.input_ids[:width]
        ids[index, : len(cut)] = torch.tensor(cut)
        answered[index, : len(cut)] = torch.tensor(row.loss_mask[:width], dtype=torch.bool)
    chance = torch.Generator().manual_seed(seed * 1_000_003 + step + 1)
    return Batch(ids, answered, draw(answered, anchors, chance))


def draw(answered: Tensor, count: int, chance: torch.Generator) -> Tensor:
    """Random anchors [sequences, count]: tokens of the answer that another one follows."""
    following = torch.zeros_like(answered)
    following[:, :-1] = answered[:, 1:]
    weight = torch.rand(answered.shape, generator=chance).masked_fill(~(answered & following), -1)
    best = weight.topk(min(count, answered.shape[1]), dim=1)
    return best.indices.masked_fill(best.values < 0, -1).sort(dim=1).values


def positions(anchors: Tensor, block: int) -> Tensor:
    """The places [sequences, anchors * block] of all blocks' rows."""
    return (anchors.clamp(min=0)[..., None] + torch.arange(block)).flatten(1)


def visible(anchors: Tensor, block: int, context: int) -> Tensor:
    """What a block's row may see [sequences, 1, anchors * block, context + anchors * block].

    The context before its anchor, and its own block in both directions.
    """
    owner = torch.arange(anchors.shape[1]).repeat_interleave(block)
    before = torch.arange(context) < anchors[:, owner, None]
    own = (owner[:, None] == owner).expand(len(anchors), -1, -1)
    return torch.cat((before, own), dim=2)[:, None]


def drafted(one: Batch, block: int, weights: Sequence[float]) -> tuple[Tensor, Tensor]:
    """What the blocks should say, and how much each token counts.

    Both are [sequences, anchors, block - 1]. A place behind the answer's end counts nothing.
    """
    width = one.ids.shape[1]
    places = one.anchors.clamp(min=0)[..., None] + torch.arange(1, block)
    inside = (places < width) & (one.anchors >= 0)[..., None]
    flat = places.clamp(max=width - 1).flatten(1)
    tokens = one.ids.gather(1, flat).view(places.shape)
    counted = inside & one.answered.gather(1, flat).view(places.shape)
    return tokens, counted * torch.tensor(weights)
