"""The target's head for the draft alone, in 8 bits.

The head is most of a small draft's cost: seven rows against every token of the vocabulary. A draft
only proposes, and the target decides in full precision, so its own logits may be rounded.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor


def quantizable(weight: Tensor) -> bool:
    """The 8-bit kernels are for the CPU, and worth it only where the weight is single precision."""
    return (
        weight.device.type == "cpu"
        and weight.dtype == torch.float32
        and torch.backends.quantized.engine in {"x86", "fbgemm", "onednn"}
    )


class QuantizedHead:
    """Approximate logits: 8-bit weights, one scale a token; activations are rounded as they come."""

    def __init__(self, weight: Tensor) -> None:
        scales = weight.abs().amax(dim=1).clamp_(min=1e-12).div_(127).double()
        zeros = torch.zeros_like(scales, dtype=torch.long)
        with warnings.catch_warnings():
            # this way in is old, and the only one to kernels that keep their pace for a few rows
            warnings.simplefilter("ignore")
            rounded = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
            self._packed: Any = torch.ops.quantized.linear_prepack(rounded, None)

    def __call__(self, hidden: Tensor) -> Tensor:
        logits: Tensor = torch.ops.quantized.linear_dynamic(hidden, self._packed, reduce_range=True)
        return logits
