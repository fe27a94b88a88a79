"""What DFlash 2 adds, in training: the same mathematics as `speculative.model2`."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

PREDECESSORS = "candidate_selector.predecessor_codebook"
SUCCESSORS = "candidate_selector.successor_codebook"
GATES = "candidate_selector.hidden_projection.weight"
ALONE = 4
"""Of so many blocks one is trained without its selector: the candidates are the likeliest tokens
without it, so that it must not be all that knows the right one."""


def begin(tensors: dict[str, Tensor], final_norm: Tensor) -> None:
    """Fresh weights that change nothing: a row is itself alone, and no candidate gains."""
    for name, tensor in tensors.items():
        if name.endswith("base_kernel"):
            tensor.zero_()
            tensor[:, 0] = 1
        elif name.endswith("kernel_projection.weight") or name == SUCCESSORS:
            tensor.zero_()
        elif name == PREDECESSORS:
            tensor.div_(tensor.std())
        elif name == GATES:  # of hidden states as large as the final norm leaves them
            tensor.div_(tensor.std() * final_norm.float().norm())


def convolved(x: Tensor, base: Tensor, kernels: Tensor, block: int) -> Tensor:
    """x [sequences, anchors * block, hidden], each row mixed with those before it in its block.

    `base` [taps, hidden]; `kernels` [sequences, anchors * block, taps, groups].
    """
    taps, hidden = base.shape
    weights = base + kernels.repeat_interleave(hidden // kernels.shape[-1], dim=-1)
    rows = x.unflatten(1, (-1, block))
    mixed = x * weights[:, :, 0]
    for tap in range(1, taps):
        earlier = functional.pad(rows, (0, 0, tap, 0))[:, :, :block].flatten(1, 2)
        mixed = mixed + earlier * weights[:, :, tap]
    return mixed.to(x.dtype)


def queries(tensors: Mapping[str, Tensor], hidden: Tensor, previous: Tensor) -> Tensor:
    """[..., rank]: times a candidate's row of the successors it is what the candidate gains.

    `hidden` [..., hidden] of rows behind the tokens `previous` [...].
    """
    table = tensors[PREDECESSORS]
    found = table.index_select(0, previous.flatten()).view(*previous.shape, -1)
    return found * functional.linear(hidden, tensors[GATES])


def trained(queries: Tensor) -> Tensor:
    """Those of all blocks [sequences, anchors, rows, rank] but each fourth, which has none."""
    places = torch.arange(queries.shape[1], device=queries.device)
    return queries * (places % ALONE != 0)[:, None, None]


def selected(
    tensors: Mapping[str, Tensor], logits: Tensor, hidden: Tensor, previous: Tensor, top: int
) -> Tensor:
    """The candidate of each row [...] that the selector takes behind `previous`."""
    best = logits.topk(min(top, logits.shape[-1]))
    gains = functional.embedding(best.indices, tensors[SUCCESSORS])
    scores = best.values + (gains * queries(tensors, hidden, previous)[..., None, :]).sum(-1)
    return best.indices.gather(-1, scores.argmax(-1, keepdim=True))[..., 0]
