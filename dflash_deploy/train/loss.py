"""The loss over a vocabulary that is too large to keep its logits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

PARTS = {"cpu": 1024, "cuda": 9216}
"""Rows whose logits are in memory at a time, about."""
Part = Callable[..., tuple[Tensor, Tensor, Tensor, Tensor, Tensor]]
SMOOTH = 0.5
"""Of a chance in D-PACE, what is taken for granted: a place behind a wrong one still counts."""


@dataclass(frozen=True)
class More:
    """What logits gain beside the head's: `queries` [rows, rank] by `gains` [vocab, rank]."""

    queries: Tensor
    gains: Tensor


def summed_loss(
    hidden: Tensor, head: Tensor, bias: Tensor | None, tokens: Tensor, counts: Tensor,
    more: More | None = None, paced: int = 0,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The sum of cross entropies, each as often as it counts, how often that is, and who is right.

    `hidden` [rows, size], `head` [vocab, size], `bias` [vocab], `tokens` and `counts` [rows].
    With `paced` rows a block, those whose `counts` is 1 count what D-PACE says; the others 0.
    Only `hidden` and `more` get gradients.
    """
    none = More(hidden[:, :0], head[:, :0])
    added = more or none
    loss, weight, right = _SummedLoss.apply(
        hidden, head, bias, tokens, counts, added.queries, added.gains, paced
    )
    return loss, weight, right


def pace(losses: Tensor, counts: Tensor) -> Tensor:
    """What each token of blocks [..., places] counts in D-PACE: arXiv 2605.18810.

    It is the expected accepted length from its place on, by the draft's own chances. `counts` is
    0 or 1.
    """
    chances = (1 - SMOOTH) * (-losses).exp() + SMOOTH
    reached = torch.where(counts > 0, chances, 1).cumprod(-1) * counts
    return reached.flip(-1).cumsum(-1).flip(-1) * counts


class _SummedLoss(torch.autograd.Function):
    """The gradient is made with the loss, part by part: logits are computed once and dropped."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, head: Tensor, bias: Tensor | None, tokens: Tensor, counts: Tensor,
        queries: Tensor, gains: Tensor, paced: int,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        wanted = PARTS.get(hidden.device.type, PARTS["cpu"])
        # equal parts: on a GPU each shape is a kernel of its own
        parts = max(1, -(-len(hidden) // wanted))
        whole = max(1, paced)
        size = max(1, -(-len(hidden) // (parts * whole))) * whole
        one = _compiled() if hidden.device.type == "cuda" else _part
        cut = (each.split(size) for each in (hidden, queries, tokens, counts))
        made = [one(head, gains, bias, paced, *rest) for rest in zip(*cut, strict=True)]
        losses, weights, gradients, of_gains, right = zip(*made, strict=True)
        ctx.save_for_backward(torch.cat(gradients), torch.stack(of_gains).sum(0))
        ctx.size = hidden.shape[1]
        weight, found = torch.stack(weights).sum(), torch.cat(right)
        ctx.mark_non_differentiable(weight, found)
        return torch.stack(losses).sum(), weight, found

    @staticmethod
    def backward(ctx: Any, of_loss: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        gradient, of_gains = ctx.saved_tensors
        of_rows = gradient * of_loss
        size = ctx.size
        return (
            of_rows[:, :size], None, None, None, None, of_rows[:, size:], of_gains * of_loss, None,
        )  # fmt: skip


def _part(
    head: Tensor, gains: Tensor, bias: Tensor | None, paced: int,
    hidden: Tensor, queries: Tensor, tokens: Tensor, counts: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Loss, its weight, gradients of rows with queries and of the gains, and which are right."""
    refined = gains.shape[1] > 0
    whole = torch.cat((head, gains), dim=1) if refined else head
    rows = torch.cat((hidden, queries), dim=1) if refined else hidden
    product = torch.nn.functional.linear(rows, whole, bias)
    logits = product.float()
    total = logits.logsumexp(-1, keepdim=True)
    said = tokens[:, None]
    losses = (total - logits.gather(1, said))[:, 0]
    if paced:
        counts = pace(losses.view(-1, paced), counts.view(-1, paced)).flatten()
    # of a cross entropy by its logits: chances, less one for the token itself
    places = torch.arange(head.shape[0], device=head.device)
    slope = ((logits - total).exp() - (places == said).float()) * counts[:, None]
    slope = slope.to(head.dtype)
    of_gains = slope.T @ queries if refined else torch.zeros_like(gains)
    right = product.argmax(-1) == tokens
    return (losses * counts).sum(), counts.sum(), slope @ whole, of_gains.float(), right


_made: list[Part] = []


def _compiled() -> Part:
    """The same in one pass over the logits rather than six."""
    if not _made:
        # a GPU that nothing can be compiled for computes it step by step
        torch._dynamo.config.suppress_errors = True  # noqa: SLF001
        # each GPU has a code of its own
        torch._dynamo.config.recompile_limit = 32  # noqa: SLF001
        _made.append(torch.compile(_part, dynamic=False))
    return _made[0]
