"""A linear layer whose weight is also kept packed for one number of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self, cast

import torch
from torch import Tensor, nn
from torch.nn import functional


def can_pack(weight: Tensor) -> bool:
    """MKL packs single precision on the CPU; anything else takes the plain product."""
    return (
        weight.device.type == "cpu"
        and weight.dtype == torch.float32
        and torch.backends.mkl.is_available()
        and hasattr(torch.ops.mkl, "_mkl_linear")
    )


class Linear(nn.Module):
    """`y = x W^T + b` for x [rows, in].

    One row is bound by reading the weight, and so is a handful of rows, but only if MKL finds the
    weight already in the order its kernel reads: packing makes 8 rows cost about 1.3 rows, not 2.
    """

    weight: Tensor
    bias: Tensor | None

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        super().__init__()
        self.register_buffer("weight", weight.contiguous())
        self.register_buffer("bias", None if bias is None else bias.contiguous())
        self._packed: Tensor | None = None
        self._rows = 0

    def pack(self, rows: int) -> None:
        """Keep a second copy of the weight, packed for exactly `rows` rows."""
        if rows > 1 and rows != self._rows and can_pack(self.weight):
            self._packed = torch.ops.mkl._mkl_reorder_linear_weight(self.weight, rows)  # noqa: SLF001
            self._rows = rows

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Self:
        # moved or cast: the packed copy is not the weight any more
        self._packed, self._rows = None, 0
        return super()._apply(fn, recurse)

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[0] == self._rows:
            product = torch.ops.mkl._mkl_linear(  # noqa: SLF001
                x, self._packed, self.weight, self.bias, self._rows
            )
            return cast(Tensor, product)
        return functional.linear(x, self.weight, self.bias)


def pack_all(module: nn.Module, rows: int) -> None:
    """Pack every linear layer below `module` for blocks of `rows` rows."""
    for child in module.modules():
        if isinstance(child, Linear):
            child.pack(rows)
