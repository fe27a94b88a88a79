"""A step's work on every GPU at once: each has a part of the batch, the first what they found.

One process launches all: a step is recorded, so that launching it takes no time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dflash_deploy.train import recipe
from dflash_deploy.train.blocks import Batch, drafted, masked
from dflash_deploy.train.draft import Draft
from dflash_deploy.train.frozen import Frozen
from dflash_deploy.train.gpus import current
from dflash_deploy.train.graphs import Graphed, Work
from dflash_deploy.train.loss import summed_loss
from dflash_deploy.train.recipe import Recipe


@dataclass(frozen=True)
class _Copy:
    """`flat` holds the gradients; `weights` the draft's, where they are not the trained ones."""

    device: torch.device
    work: Graphed
    flat: Tensor
    gradients: list[Tensor]
    weights: Tensor | None


class Copies:
    """The draft and its target on some devices, in turn of them. `draft` is what is trained.

    As many devices are used as cut a batch into equal parts.
    """

    def __init__(
        self, plan: Recipe, draft: Draft, target: Frozen, devices: Sequence[torch.device]
    ) -> None:
        count = max(n for n in range(1, len(devices) + 1) if plan.batch % n == 0)
        self._draft = draft
        self._copies = [_copy(plan, draft, target, target.device, first=True)]
        self._copies += [
            _copy(plan, draft, target, device, first=False) for device in devices[1:count]
        ]

    @property
    def gradients(self) -> list[Tensor]:
        """Of the whole batch, one a tensor of the draft; the next step writes over them."""
        return self._copies[0].gradients

    def parts(self, one: Batch) -> list[Batch]:
        """Of a batch, each where it is worked on."""
        cut = one.cut(len(self._copies))
        return [part.to(each.device) for part, each in zip(cut, self._copies, strict=True)]

    def work(self, parts: Sequence[Batch]) -> tuple[Tensor, Tensor]:
        """Loss and accuracy of a batch, the means of its parts'."""
        made = []
        for each, part in zip(self._copies, parts, strict=True):
            with current(each.device):
                made.append(each.work(part))
        first, *others = self._copies
        for other in others:
            first.flat.add_(other.flat.to(first.device))
        first.flat.div_(len(self._copies))
        loss, accuracy = (
            torch.stack([each.to(first.device) for each in several]).mean()
            for several in zip(*made, strict=True)
        )
        return loss, accuracy

    @torch.no_grad()
    def follow(self) -> None:
        """Have all copies the weights of the first."""
        others = [each.weights for each in self._copies if each.weights is not None]
        if others:
            weights = torch.cat([tensor.flatten() for tensor in self._draft.tensors.values()])
            for other in others:
                other.copy_(weights)


def _copy(
    plan: Recipe, draft: Draft, target: Frozen, device: torch.device, *, first: bool
) -> _Copy:
    weights = None
    if not first:
        target, (draft, weights) = target.on(device), _twin(draft, device)
    flat, gradients = _cut(draft.tensors, device)
    return _Copy(
        device, Graphed(_forward_and_back(plan, draft, target, gradients), device),
        flat, gradients, weights,
    )  # fmt: skip


def _cut(tensors: Mapping[str, Tensor], device: torch.device) -> tuple[Tensor, list[Tensor]]:
    """One tensor of zeros that holds all, and what it holds in their shapes."""
    sizes = [tensor.numel() for tensor in tensors.values()]
    flat = torch.zeros(sum(sizes), device=device)
    shapes = (tensor.shape for tensor in tensors.values())
    return flat, [part.view(shape) for part, shape in zip(flat.split(sizes), shapes, strict=True)]


@torch.no_grad()
def _twin(draft: Draft, device: torch.device) -> tuple[Draft, Tensor]:
    """The draft elsewhere, and its weights as one tensor."""
    flat, held = _cut(draft.tensors, device)
    flat.copy_(torch.cat([tensor.flatten() for tensor in draft.tensors.values()]))
    tensors = {name: part.requires_grad_() for name, part in zip(draft.tensors, held, strict=True)}
    return replace(draft, tensors=tensors, scales=draft.scales.to(device)), flat


def _forward_and_back(
    plan: Recipe, draft: Draft, target: Frozen, gradients: Sequence[Tensor]
) -> Work:
    """Loss and accuracy of a batch; the gradients are written where they belong."""
    block = plan.block_size
    paced = block - 1 if plan.dpace else 0
    weights = torch.tensor([1.0] * paced or recipe.weights(block), device=target.device)
    mask_token = draft.config.mask_token_id
    tensors = list(draft.tensors.values())
    kind = target.device.type

    def work(one: Batch) -> tuple[Tensor, Tensor]:
        with torch.autocast(kind, torch.bfloat16, enabled=kind == "cuda"):
            tokens, counts = drafted(one, block, weights)
            embedded = target.embed(masked(one, block, mask_token))
            hidden = draft.hidden(one, target.features(one.ids), embedded)
            # the anchor's own row says nothing: its token is known
            rows = hidden.unflatten(1, (-1, block))[:, :, 1:]
            head, bias = target.head
            more = draft.more(rows, one.before(tokens), head.dtype)
            loss, weight, right = summed_loss(
                rows.flatten(0, 2).to(head.dtype), head, bias, tokens.flatten(), counts.flatten(),
                more, paced,
            )  # fmt: skip
            loss = loss / weight
        for kept, made in zip(gradients, torch.autograd.grad(loss, tensors), strict=True):
            kept.copy_(made)
        first = counts[..., 0] > 0
        hits = right.view_as(counts)[..., 0] & first
        return loss.detach(), hits.sum() / first.sum().clamp(min=1)

    return work
