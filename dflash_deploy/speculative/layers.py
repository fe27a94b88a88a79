"""The decoder layer that Llama and Qwen3 targets and DFlash drafts share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from dflash_deploy.speculative.cache import KVCache, LayerView
from dflash_deploy.speculative.linear import Linear, linears
from dflash_deploy.speculative.rope import interleave, rotate


@dataclass(frozen=True)
class Heads:
    """The shape of an attention layer."""

    query: int
    key: int
    dim: int

    @property
    def groups(self) -> int:
        """Query heads to a key head."""
        return self.query // self.key


class Place(Protocol):
    """Where the rows of one forward pass stand: their rotation, and what they attend to."""

    @property
    def angles(self) -> Tensor:
        """Complex [rows, 1, head_dim / 2]."""

    def attend(self, layer: int, heads: Heads, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Store keys and values [rows, kv_heads, head_dim]; attend; return [rows, query_size]."""


@dataclass(frozen=True)
class CachePlace:
    """The rows of one sequence behind its first `start` positions.

    The mask [groups * rows, keys] says how many keys are looked at; without one it is all.
    """

    angles: Tensor
    cache: KVCache
    start: int
    mask: Tensor | None

    @cached_property
    def _views(self) -> list[LayerView]:
        stop = self.start + self.angles.shape[0]
        seen = stop if self.mask is None else self.mask.shape[1]
        return self.cache.views(slice(self.start, stop), seen)

    def attend(self, layer: int, heads: Heads, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        view = self._views[layer]
        view.new_keys.copy_(key)
        view.new_values.copy_(value)
        return attended(query, view, heads, self.mask)


def attended(query: Tensor, view: LayerView, heads: Heads, mask: Tensor | None) -> Tensor:
    """What queries [rows, heads, dim] find in a layer's keys and values: [rows, query_size]."""
    rows = query.shape[0]
    # [rows, heads, dim] to [1, kv_heads, groups * rows, dim]: each key head serves its group
    grouped = query.view(rows, heads.key, heads.groups, heads.dim).permute(1, 2, 0, 3)
    mixed = functional.scaled_dot_product_attention(
        grouped.reshape(1, heads.key, -1, heads.dim), view.keys, view.values, attn_mask=mask
    )
    back = mixed.view(heads.key, heads.groups, rows, heads.dim).permute(2, 0, 1, 3)
    return back.reshape(rows, -1)


class RMSNorm(nn.Module):
    """Divide by the root mean square of the last dimension, times a weight."""

    weight: Tensor

    def __init__(self, weight: Tensor, eps: float) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self._eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x, self.weight.shape, self.weight, self._eps)


@dataclass(frozen=True)
class LayerWeights:
    """One layer's tensors under their published names, without the layer's prefix."""

    tensors: dict[str, Tensor]

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[f"{name}.weight"]

    def bias(self, *names: str) -> Tensor | None:
        biases = [self.tensors.get(f"{name}.bias") for name in names]
        present = [bias for bias in biases if bias is not None]
        return torch.cat(present) if present else None


class Attention(nn.Module):
    """Grouped-query attention over a cache, with optional norms on queries and keys."""

    q_norm: RMSNorm | None
    k_norm: RMSNorm | None

    def __init__(self, weights: LayerWeights, heads: Heads, eps: float, index: int) -> None:
        super().__init__()
        self._heads = heads
        self._index = index
        names = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
        query, key, value = (weights[name] for name in names)
        paired = [interleave(query, heads.dim), interleave(key, heads.dim), value]
        self.qkv = Linear(torch.cat(paired), _paired_bias(weights, names, heads.dim))
        self.o = Linear(weights["self_attn.o_proj"], weights.bias("self_attn.o_proj"))
        self.q_norm = self.k_norm = None
        if "self_attn.q_norm.weight" in weights.tensors:
            self.q_norm = RMSNorm(interleave(weights["self_attn.q_norm"], heads.dim), eps)
            self.k_norm = RMSNorm(interleave(weights["self_attn.k_norm"], heads.dim), eps)

    def forward(self, x: Tensor, place: Place) -> Tensor:
        heads, rows = self._heads, x.shape[0]
        qkv = self.qkv(x).view(rows, -1, heads.dim)
        query_key, value = qkv.split((heads.query + heads.key, heads.key), dim=1)
        if self.q_norm is not None and self.k_norm is not None:
            query, key = query_key.split((heads.query, heads.key), dim=1)
            query_key = torch.cat((self.q_norm(query), self.k_norm(key)), dim=1)
        query, key = rotate(query_key, place.angles).split((heads.query, heads.key), dim=1)
        return self.o(place.attend(self._index, heads, query, key, value))


class MLP(nn.Module):
    """The gated feed-forward layer, gate and up in one product."""

    def __init__(self, weights: LayerWeights) -> None:
        super().__init__()
        up = [weights["mlp.gate_proj"], weights["mlp.up_proj"]]
        self.gate_up = Linear(torch.cat(up), weights.bias("mlp.gate_proj", "mlp.up_proj"))
        self.down = Linear(weights["mlp.down_proj"], weights.bias("mlp.down_proj"))

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(functional.silu(gate).mul_(up))


class DecoderLayer(nn.Module):
    """Attention and feed-forward, each behind a norm and added to the residual stream."""

    def __init__(self, weights: LayerWeights, heads: Heads, eps: float, index: int) -> None:
        super().__init__()
        self.input_norm = RMSNorm(weights["input_layernorm"], eps)
        self.attention = Attention(weights, heads, eps, index)
        self.post_norm = RMSNorm(weights["post_attention_layernorm"], eps)
        self.mlp = MLP(weights)

    def round(self) -> None:
        """Compute the large products in 8 bits from now on, where the device can."""
        for linear in (*linears(self.attention), *linears(self.mlp)):
            linear.round()

    def forward(self, x: Tensor, place: Place) -> Tensor:
        x = self.attention(self.input_norm(x), place).add_(x)
        added: Tensor = self.mlp(self.post_norm(x)).add_(x)
        return added


def _paired_bias(weights: LayerWeights, names: tuple[str, ...], dim: int) -> Tensor | None:
    biases = [weights.bias(name) for name in names]
    query, key, value = biases
    if query is None or key is None or value is None:
        return None
    return torch.cat([interleave(query, dim), interleave(key, dim), value])
