"""What `DraftModel.spec_generate` does: a tensor in, a tensor out, the decoder kept between calls.

A decoder takes a while to make: the target's weights are packed and its head is rounded. So there
is one for each pair of draft and target, for as long as both are alive and unchanged.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from dflash_deploy.speculative.decoder import SpeculativeDecoder
from dflash_deploy.speculative.hub_target import HubTarget
from dflash_deploy.speculative.load import as_target
from dflash_deploy.speculative.model import DraftModel
from dflash_deploy.speculative.target import Target
from dflash_deploy.speculative.types import Sampling

Marks = tuple[tuple[int, int], ...]
Kept = weakref.WeakKeyDictionary[Any, tuple[Marks, SpeculativeDecoder]]

# by draft, then by target; neither is kept alive by what stands here
_DECODERS: weakref.WeakKeyDictionary[DraftModel, Kept] = weakref.WeakKeyDictionary()


def generate(draft: DraftModel, target: Any, input_ids: Any, sampling: Sampling) -> Tensor:
    """Prompt and answer, [1, length], for what `prompt_row` takes."""
    row = prompt_row(input_ids)
    steps = decoder_for(draft, target).generate(row[0].tolist(), sampling)
    answer = [token for step in steps for token in step.tokens]
    return torch.cat((row, row.new_tensor([answer])), dim=1)


def prompt_row(input_ids: Any) -> Tensor:
    """Token ids [1, tokens] from a tensor or from what a tokenizer returns."""
    mask = None
    if isinstance(input_ids, Mapping):
        input_ids, mask = input_ids.get("input_ids"), input_ids.get("attention_mask")
    if not isinstance(input_ids, Tensor) or input_ids.is_floating_point():
        kind = input_ids.dtype if isinstance(input_ids, Tensor) else type(input_ids).__name__
        raise TypeError(
            f"input_ids is {kind}; it should be a tensor of token ids [1, tokens], "
            'as a tokenizer gives with return_tensors="pt"'
        )
    if input_ids.dim() != 2 or input_ids.shape[0] != 1:
        raise ValueError(
            f"input_ids has shape {list(input_ids.shape)}; it should be one row, [1, tokens]: "
            "call once for each prompt"
        )
    if isinstance(mask, Tensor) and not bool(mask.all()):
        raise ValueError("the prompt is padded; one row needs no padding")
    return input_ids


def decoder_for(draft: DraftModel, target: Any) -> SpeculativeDecoder:
    """The decoder of this pair, made anew only where a weight of either has changed."""
    kept = _DECODERS.setdefault(draft, weakref.WeakKeyDictionary())
    marks = _marks(draft) + _marks(target.model if isinstance(target, HubTarget) else target)
    found = kept.get(target)
    if found is None or found[0] != marks:
        # the old one goes first: two converted targets may be too many for the memory
        kept.pop(target, None)
        del found
        found = kept[target] = (marks, SpeculativeDecoder(_lent(target), draft, adaptive=True))
    return found[1]


def _lent(target: Any) -> Target:
    """The target as a decoder may hold it without keeping the caller's object alive."""
    ours = as_target(target)
    if ours is target:
        lent: Target = weakref.proxy(target)
        return lent
    return HubTarget(weakref.proxy(target)) if isinstance(ours, HubTarget) else ours


def _marks(module: nn.Module) -> Marks:
    """Where the weights lie and how often they were written to: moved or changed, these differ."""
    tensors: list[Tensor] = [*module.parameters()] or [*module.buffers()]
    return tuple(
        (tensor.data_ptr(), 0 if tensor.is_inference() else tensor._version)  # noqa: SLF001
        for tensor in tensors
    )
