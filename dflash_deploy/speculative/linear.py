"""A linear layer whose weight is also kept packed for one number of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from dflash_deploy.speculative.rounded import RoundedProduct, RowProduct, can_round


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
        self._packs: dict[int, Tensor] = {}
        self._rounded: RoundedProduct | RowProduct | None = None

    @property
    def packed_rows(self) -> set[int]:
        return set(self._packs)

    @property
    def rounded(self) -> bool:
        return self._rounded is not None

    def pack(self, rows: int) -> None:
        """Keep another copy of the weight, packed for exactly `rows` rows."""
        if rows > 1 and rows not in self._packs and not self._rounded and can_pack(self.weight):
            packed = torch.ops.mkl._mkl_reorder_linear_weight(self.weight, rows)  # noqa: SLF001
            self._packs[rows] = packed

    def round(self) -> None:
        """Compute in 8 bits from now on, where the device can; else leave the layer as it is."""
        if can_round(self.weight):
            self._rounded = RoundedProduct(self.weight, self.bias)

    def round_rows(self) -> None:
        """The same, and each row's product is its own: what a target may be computed with."""
        self._rounded = RowProduct(self.weight, self.bias)

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Self:
        # moved or cast: the copies are not the weight any more
        self._packs, self._rounded = {}, None
        return super()._apply(fn, recurse)

    def forward(self, x: Tensor) -> Tensor:
        if self._rounded is not None:
            return self._rounded(x)
        rows = x.shape[0]
        packed = self._packs.get(rows)
        if packed is None:
            return functional.linear(x, self.weight, self.bias)
        product = torch.ops.mkl._mkl_linear(x, packed, self.weight, self.bias, rows)  # noqa: SLF001
        return cast(Tensor, product)


def linears(module: nn.Module) -> Iterator[Linear]:
    """Every linear layer below `module`."""
    return (child for child in module.modules() if isinstance(child, Linear))
