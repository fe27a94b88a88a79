"""Rotary positions as one complex product.

transformers rotates dimension i with dimension i + d/2. The rows of the query and key projections
are reordered at loading so that a pair lies side by side and is one complex number; a dot product
of query and key does not notice, because both are reordered alike.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dflash_deploy.errors import Unsupported

# the angles of the other types change with the length of the sequence
STATIC_TYPES = frozenset({"default", "linear", "llama3", "yarn", "proportional"})


def rope_type(config: Any) -> str:
    """The type a transformers config asks for."""
    return str((config.rope_parameters or {}).get("rope_type", "default"))


def interleave(tensor: Tensor, head_dim: int) -> Tensor:
    """Reorder dimension 0, made of heads of `head_dim`, from halves to neighbouring pairs."""
    heads = tensor.unflatten(0, (-1, 2, head_dim // 2))
    return heads.transpose(1, 2).flatten(0, 2).contiguous()


def rotate(x: Tensor, angles: Tensor) -> Tensor:
    """Rotate x [rows, heads, head_dim] by angles [rows, 1, head_dim / 2], complex."""
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * angles).flatten(-2).to(x.dtype)


class Rope:
    """Angles of every position, computed once and grown by doubling."""

    def __init__(self, config: Any) -> None:
        kind = rope_type(config)
        if kind not in STATIC_TYPES:
            raise Unsupported(f"rotary positions of type {kind!r} are not implemented")
        self._inverse, self._scale = _frequencies(config, kind)
        self._table = torch.empty(0, 1, self._inverse.numel(), dtype=torch.complex64)

    def angles(self, start: int, stop: int, device: torch.device) -> Tensor:
        """Complex [stop - start, 1, head_dim / 2] on `device`."""
        if stop > self._table.shape[0] or device != self._table.device:
            size = max(stop, 2 * self._table.shape[0], 512)
            positions = torch.arange(size, dtype=torch.float32, device=device)
            phase = torch.outer(positions, self._inverse.to(device))
            self._table = torch.polar(torch.full_like(phase, self._scale), phase)[:, None, :]
        return self._table[start:stop]


def _frequencies(config: Any, kind: str) -> tuple[Tensor, float]:
    if kind != "default":
        from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

        inverse, scale = ROPE_INIT_FUNCTIONS[kind](config, torch.device("cpu"))
        return inverse.float(), float(scale)
    dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    exponents = torch.arange(0, dim, 2, dtype=torch.int64).float() / dim
    return 1.0 / config.rope_parameters["rope_theta"] ** exponents, 1.0
