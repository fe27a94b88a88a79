"""The loss over a vocabulary that is too large to keep its logits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

Head = Callable[[Tensor], Tensor]
ROWS = {"cpu": 1024, "cuda": 8192}
"""Rows whose logits are in memory at a time."""


def summed_loss(
    head: Head, hidden: Tensor, tokens: Tensor, counts: Tensor
) -> tuple[Tensor, Tensor]:
    """The weighted sum of cross entropies, and which rows are right.

    `hidden` [rows, size], `tokens` and `counts` [rows].
    """
    loss, right = _SummedLoss.apply(hidden, tokens, counts, head)
    return loss, right


class _SummedLoss(torch.autograd.Function):
    """The gradient is made with the loss, part by part: logits are computed once and dropped."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, tokens: Tensor, counts: Tensor, head: Head
    ) -> tuple[Tensor, Tensor]:
        size = ROWS.get(hidden.device.type, ROWS["cpu"])
        gradient = torch.empty_like(hidden)
        losses, right = [], []
        for begin in range(0, len(hidden), size):
            part = slice(begin, begin + size)
            with torch.enable_grad():
                rows = hidden[part].detach().requires_grad_()
                logits = head(rows)
                each = functional.cross_entropy(logits.float(), tokens[part], reduction="none")
                loss = (each * counts[part]).sum()
            [gradient[part]] = torch.autograd.grad(loss, rows)
            losses.append(loss.detach())
            right.append(logits.detach().argmax(-1) == tokens[part])
        ctx.save_for_backward(gradient)
        found = torch.cat(right) if right else torch.zeros(0, dtype=torch.bool)
        ctx.mark_non_differentiable(found)
        return sum(losses, torch.zeros((), device=hidden.device)), found

    @staticmethod
    def backward(ctx: Any, of_loss: Tensor, _: Tensor) -> tuple[Tensor, None, None, None]:
        [gradient] = ctx.saved_tensors
        return gradient * of_loss, None, None, None
