"""The loss over a vocabulary that is too large to keep its logits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

PARTS = {"cpu": 1024, "cuda": 9216}
"""Rows whose logits are in memory at a time, about."""
Part = Callable[[Tensor, Tensor, "Tensor | None", Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]


def summed_loss(
    hidden: Tensor, head: Tensor, bias: Tensor | None, tokens: Tensor, counts: Tensor
) -> tuple[Tensor, Tensor]:
    """The sum of cross entropies, each as often as it counts, and which rows are right.

    `hidden` [rows, size], `head` [vocab, size], `bias` [vocab], `tokens` and `counts` [rows].
    Only `hidden` gets a gradient.
    """
    loss, right = _SummedLoss.apply(hidden, head, bias, tokens, counts)
    return loss, right


class _SummedLoss(torch.autograd.Function):
    """The gradient is made with the loss, part by part: logits are computed once and dropped."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, head: Tensor, bias: Tensor | None, tokens: Tensor, counts: Tensor
    ) -> tuple[Tensor, Tensor]:
        wanted = PARTS.get(hidden.device.type, PARTS["cpu"])
        # equal parts: on a GPU each shape is a kernel of its own
        parts = max(1, -(-len(hidden) // wanted))
        one = _compiled() if hidden.device.type == "cuda" else _part
        made = [
            one(rows, head, bias, *rest)
            for rows, *rest in zip(
                hidden.chunk(parts), tokens.chunk(parts), counts.chunk(parts), strict=True
            )
        ]
        losses, gradients, right = zip(*made, strict=True)
        ctx.save_for_backward(torch.cat(gradients))
        found = torch.cat(right)
        ctx.mark_non_differentiable(found)
        return torch.stack(losses).sum(), found

    @staticmethod
    def backward(ctx: Any, of_loss: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        [gradient] = ctx.saved_tensors
        return gradient * of_loss, None, None, None, None


def _part(
    hidden: Tensor, head: Tensor, bias: Tensor | None, tokens: Tensor, counts: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Loss, gradient of the rows, and which are right."""
    product = torch.nn.functional.linear(hidden, head, bias)
    logits = product.float()
    total = logits.logsumexp(-1, keepdim=True)
    said = tokens[:, None]
    loss = ((total - logits.gather(1, said))[:, 0] * counts).sum()
    # of a cross entropy by its logits: chances, less one for the token itself
    places = torch.arange(head.shape[0], device=head.device)
    slope = ((logits - total).exp() - (places == said).float()) * counts[:, None]
    return loss, slope.to(head.dtype) @ head, product.argmax(-1) == tokens


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
