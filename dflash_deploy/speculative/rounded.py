"""Products in 8 bits, for the draft alone: it only proposes, and the target decides exactly.

The target's head is most of a small draft's cost: every row of a block against every token of the
vocabulary. 8-bit weights are a quarter of the bytes, and their kernels keep pace for a few rows.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor


def can_round(weight: Tensor) -> bool:
    """The 8-bit kernels are for the CPU, and worth it only against single precision."""
    return (
        weight.device.type == "cpu"
        and weight.dtype == torch.float32
        and torch.backends.quantized.engine in {"x86", "fbgemm", "onednn"}
    )


class RoundedProduct:
    """x W^T + b, approximately: one scale a row of the weight, one for all of x as it comes."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        scales = weight.abs().amax(dim=1).clamp_(min=1e-12).div_(127).double()
        zeros = torch.zeros_like(scales, dtype=torch.long)
        with warnings.catch_warnings():
            # this way in is old, and the only one to these kernels
            warnings.simplefilter("ignore")
            rounded = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
            self._packed: Any = torch.ops.quantized.linear_prepack(rounded, bias)

    def __call__(self, x: Tensor) -> Tensor:
        product: Tensor = torch.ops.quantized.linear_dynamic(x, self._packed, reduce_range=True)
        return product
