"""Acceptance without decoding: the target's greedy answer is known, so every block can be drafted
at once, and a decoder's way through the answer is looked up in what they got right.

The cycles are those of greedy decoding with whole blocks: a block stands on the target's own
tokens alone, and accepting is agreeing with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from dflash_deploy.train.blocks import Answer, Batch, filled, masked, positions
from dflash_deploy.train.draft import Draft
from dflash_deploy.train.frozen import Frozen

ROWS = {"cpu": 4096, "cuda": 65536}
"""Rows of blocks in memory at a time."""


@dataclass(frozen=True)
class Walk:
    """One answer's cycles. `accepted`: drafted tokens that each cycle kept."""

    id: int
    accepted: tuple[int, ...]

    @property
    def tokens(self) -> int:
        """Of all cycles; the answer's first token is the prompt's pass."""
        return sum(self.accepted) + len(self.accepted)


def walked(draft: Draft, target: Frozen, answers: Sequence[Answer], length: int) -> Iterator[Walk]:
    """The cycles of each answer, cut to `length` tokens with its prompt."""
    for answer in answers:
        yield Walk(answer.id, tuple(cycles(kept(draft, target, answer, length))))


def cycles(kept: Sequence[int]) -> Iterator[int]:
    """Which of the places' drafted tokens a decoder uses: it goes on behind what it committed.

    `kept[i]`: how many tokens drafted behind token i of the answer are right. The last place has
    nothing behind it.
    """
    place = 0
    while place < len(kept) - 1:
        accepted = min(kept[place], len(kept) - 2 - place)
        yield accepted
        place += accepted + 1


@torch.no_grad()
def kept(draft: Draft, target: Frozen, answer: Answer, length: int) -> list[int]:
    """For each token of the answer, how many drafted behind it are the target's."""
    device, block = target.device, draft.config.block_size
    ids, answered = filled([answer], length)
    places = answered[0].nonzero()[:, 0]
    features = target.features(ids)
    right = []
    for part in places.split(max(1, ROWS.get(device.type, ROWS["cpu"]) // block)):
        one = Batch(ids, answered, part[None]).to(device)
        embedded = target.embed(masked(one, block, draft.config.mask_token_id))
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            hidden = draft.hidden(one, features, embedded)
            rows = hidden[0].unflatten(0, (-1, block))[:, 1:]
            places = positions(one.anchors, block)[0].unflatten(0, (-1, block))
            inside = places[:, 1:] < ids.shape[1]
            there = places.clamp(max=ids.shape[1] - 1)
            tokens, there = one.ids[0, there], there[:, 1:]
            said = tokens[:, 1:]
            # a guess counts where all before it are right: it stands behind the target's own
            guesses = draft.guesses(rows, tokens[:, :-1], *target.head)
        counted = inside & one.answered[0, there]
        right.append(((guesses == said) & counted).int().cumprod(1).sum(1).cpu())
    return torch.cat(right).tolist() if right else []
