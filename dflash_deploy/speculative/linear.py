"""A linear layer whose weight is also kept in the order that a kernel for a few rows reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from dflash_deploy.speculative.rounded import RoundedProduct, RowProduct, can_round

EXPECTED = 8
"""Rows of a verification, which oneDNN is told: others are no slower for it."""


def can_pack(weight: Tensor) -> bool:
    """Single precision on a CPU with MKL; anything else takes the plain product."""
    return (
        weight.device.type == "cpu"
        and weight.dtype == torch.float32
        and torch.backends.mkl.is_available()
        and hasattr(torch.ops.mkl, "_mkl_linear")
    )


def packs_once() -> bool:
    """Whether one packed copy, oneDNN's, serves every number of rows.

    MKL's own layout is for Intel's CPUs with AVX-512, where both are as fast. Elsewhere MKL is
    slow: on two cores of an AMD EPYC with AVX2 the demo target's products take 40, 76 and 86 ms
    with it for 1, 4 and 8 rows, and 26, 36 and 43 with oneDNN; with AVX-512 49, 70 and 75, and 26,
    24 and 27 (`benchmarks/kernels.py`, docs/embedded-engine.md).
    """
    cpu = torch.cpu.get_capabilities()
    at_home = cpu.get("avx512_f", False) and "Intel" in str(cpu.get("cpu_name"))
    return torch.backends.mkldnn.is_available() and not at_home


class Linear(nn.Module):
    """`y = x W^T + b` for x [rows, in].

    One row is bound by reading the weight, and so is a handful of rows, but only if a kernel finds
    the weight already in the order it reads: packing makes 8 rows cost about 1.45 rows, not 2.
    """

    weight: Tensor
    bias: Tensor | None

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        super().__init__()
        self.register_buffer("weight", weight.contiguous())
        self.register_buffer("bias", None if bias is None else bias.contiguous())
        self._packs: dict[int, Tensor] = {}
        self._one_pack: Tensor | None = None
        self._in_pairs = False
        self._rounded: RoundedProduct | RowProduct | None = None

    @property
    def packed(self) -> bool:
        return bool(self._packs) or self._one_pack is not None

    @property
    def packed_rows(self) -> set[int]:
        """The numbers of rows that it is packed for; none where one copy serves all."""
        return set(self._packs)

    @property
    def rounded(self) -> bool:
        return self._rounded is not None

    def pack(self, rows: int) -> None:
        """Keep another copy of the weight, packed for `rows` rows, or once for any number."""
        if self._rounded or not can_pack(self.weight):
            return
        if packs_once():
            if self._one_pack is None:
                self._one_pack = torch.ops.mkldnn._reorder_linear_weight(  # noqa: SLF001
                    self.weight, EXPECTED
                )
                self._in_pairs = not self._alike(self._one_pack)
        elif rows > 1 and rows not in self._packs:
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
        self._packs, self._one_pack, self._rounded = {}, None, None
        return super()._apply(fn, recurse)

    def forward(self, x: Tensor) -> Tensor:
        if self._rounded is not None:
            return self._rounded(x)
        if self._one_pack is not None:
            return self._by_onednn(x, self._one_pack)
        rows = x.shape[0]
        packed = self._packs.get(rows)
        if packed is None:
            return functional.linear(x, self.weight, self.bias)
        product = torch.ops.mkl._mkl_linear(x, packed, self.weight, self.bias, rows)  # noqa: SLF001
        return cast(Tensor, product)

    def _by_onednn(self, x: Tensor, packed: Tensor) -> Tensor:
        if self._in_pairs and x.shape[0] == 1:
            return _pointwise(torch.cat((x, x)), packed, self.bias)[:1]
        return _pointwise(x, packed, self.bias)

    def _alike(self, packed: Tensor) -> bool:
        """Whether a row by itself is summed as among others: with AVX-512 not if it is long."""
        two = torch.randn(2, self.weight.shape[1], generator=torch.Generator().manual_seed(0))
        both, one = (_pointwise(x, packed, self.bias) for x in (two, two[:1]))
        return torch.equal(both[:1], one)


def _pointwise(x: Tensor, packed: Tensor, bias: Tensor | None) -> Tensor:
    product = torch.ops.mkldnn._linear_pointwise(x, packed, bias, "none", [], "")  # noqa: SLF001
    return cast(Tensor, product)


def linears(module: nn.Module) -> Iterator[Linear]:
    """Every linear layer below `module`."""
    return (child for child in module.modules() if isinstance(child, Linear))
