"""Products in 8 bits: a quarter of the bytes, and their kernels keep pace for a few rows.

A draft only proposes, so its products may be rounded as suits them: the target's head is most of a
small draft's cost, every row of a block against every token of the vocabulary. A target decides: a
row of it must come out the same, bit for bit, whatever rows are computed beside it.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

TINY = 1e-12
FINE, COARSE = 255, 127


def can_round(weight: Tensor) -> bool:
    """The 8-bit kernels are for the CPU, and worth it only against single precision."""
    return (
        weight.device.type == "cpu"
        and weight.dtype == torch.float32
        and torch.backends.quantized.engine in {"x86", "fbgemm", "onednn"}
    )


def steps() -> int:
    """The steps from the least to the largest activation that this CPU's kernels have room for.

    Without these instructions sums of two products overflow, unless activations have 7 bits.
    """
    return FINE if torch.cpu.get_capabilities().get("avx512_vnni", False) else COARSE


class RoundedProduct:
    """x W^T + b, approximately: one scale a row of the weight, one for all of x as it comes."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self._packed = pack(rounded(weight), bias)

    def __call__(self, x: Tensor) -> Tensor:
        product: Tensor = torch.ops.quantized.linear_dynamic(x, self._packed, reduce_range=True)
        return product


class RowProduct:
    """x W^T + b in 8 bits with a scale for each row of x: a row knows nothing of the others.

    The kernel has one scale and one zero point for all of x, by its least and its largest number.
    Each row is divided by its own largest, and two more columns of 1 and -1, against weights of
    zero, make these two the same for every x. The sums are of whole numbers, so they are exact in
    whatever order a kernel takes them.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        ended = torch.cat((weight, weight.new_zeros(len(weight), 2)), dim=1)
        self._packed = pack(rounded(ended), None)
        self._bias = bias
        self._ends = weight.new_tensor([[1.0, -1.0]])
        self._narrow = steps() < FINE

    def __call__(self, x: Tensor) -> Tensor:
        peaks = x.abs().amax(1, keepdim=True).clamp_(min=TINY)
        within = torch.cat((x / peaks, self._ends.expand(len(x), 2)), dim=1)
        product = torch.ops.quantized.linear_dynamic(
            within, self._packed, reduce_range=self._narrow
        )
        product.mul_(peaks)
        return product if self._bias is None else product.add_(self._bias)


def rounded(weight: Tensor) -> Tensor:
    """The weight in 8 bits, with a scale for each row."""
    scales = weight.abs().amax(dim=1).clamp_(min=TINY).div_(127).double()
    zeros = torch.zeros_like(scales, dtype=torch.long)
    with warnings.catch_warnings():
        # this way in is old, and the only one to these kernels
        warnings.simplefilter("ignore")
        return torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)


def pack(weight: Tensor, bias: Tensor | None) -> Any:
    """A rounded weight in the order that the kernel reads."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.ops.quantized.linear_prepack(weight, bias)
