"""The DFlash draft in training: the published tensors as they are, many blocks in one pass.

The same mathematics as `speculative.model`, whose weights are fused and reordered for serving.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from dflash_deploy.speculative.config import DraftConfig, read_config
from dflash_deploy.speculative.model import draft_rope, expected_shapes
from dflash_deploy.speculative.rope import Rope
from dflash_deploy.speculative.weights import read_tensors
from dflash_deploy.train.blocks import Batch, positions, visible

SPREAD = 0.02
"""Standard deviation of fresh matrices."""


def fresh(config: DraftConfig, final_norm: Tensor, seed: int) -> dict[str, Tensor]:
    """Untrained weights under their published names. `final_norm`: where `norm.weight` starts."""
    chance = torch.Generator().manual_seed(seed)
    tensors = {
        name: torch.ones(shape) if len(shape) == 1
        else torch.randn(shape, generator=chance) * SPREAD
        for name, shape in expected_shapes(config).items()
    }  # fmt: skip
    # what a layer adds starts small beside what comes in
    for name in tensors:
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            tensors[name] /= (2 * config.layers) ** 0.5
    # features of size 1 come out at about that size
    tensors["fc.weight"] /= SPREAD * tensors["fc.weight"].shape[1] ** 0.5
    tensors["norm.weight"] = final_norm.float().clone()
    return tensors


@dataclass(frozen=True)
class Draft:
    """`scales` [taps]: features are divided by them in training, `fc.weight` when it is saved.

    The layers of a target differ in size by orders of magnitude, and an optimiser's step does not.
    """

    config: DraftConfig
    tensors: Mapping[str, Tensor]
    scales: Tensor

    @cached_property
    def _rope(self) -> Rope:
        return draft_rope(self.config)

    def reach(self, places: int, device: torch.device) -> None:
        """Make the angles of so many places at once: a recorded step keeps pointing at them."""
        self._rope.angles(0, places + self.config.block_size, device)

    def hidden(self, one: Batch, features: Tensor, embedded: Tensor) -> Tensor:
        """Final hidden states [sequences, anchors * block, hidden] of embedded blocks alike.

        `features`: [sequences, length, taps, hidden], the outputs of the target's tapped layers.
        """
        config, device = self.config, features.device
        block, context = config.block_size, features.shape[1]
        places = positions(one.anchors, block)
        mask = visible(one.anchors, block, context)
        table = self._rope.angles(0, context + block, device)[:, 0]
        angles = torch.cat((table[:context].expand(len(places), -1, -1), table[places]), dim=1)
        scaled = (features / self.scales[:, None]).to(features.dtype).flatten(2)
        fused = self._norm("hidden_norm", functional.linear(scaled, self.tensors["fc.weight"]))
        x = embedded
        for index in range(config.layers):
            x = self._layer(f"layers.{index}.", x, fused, angles, mask)
        return self._norm("norm", x)

    def _norm(self, name: str, x: Tensor) -> Tensor:
        weight = self.tensors[f"{name}.weight"]
        return functional.rms_norm(x.float(), weight.shape, weight, self.config.norm_eps).to(
            x.dtype
        )

    def _layer(self, prefix: str, x: Tensor, fused: Tensor, angles: Tensor, mask: Tensor) -> Tensor:
        """One decoder layer; keys and values come from the context as well as from the block."""
        config = self.config
        inner = self._norm(f"{prefix}input_layernorm", x)
        both = torch.cat((fused.to(inner.dtype), inner), dim=1)
        query = self._heads(f"{prefix}self_attn.q_proj", inner, config.heads)
        key = self._heads(f"{prefix}self_attn.k_proj", both, config.kv_heads)
        value = self._heads(f"{prefix}self_attn.v_proj", both, config.kv_heads)
        query = turned(self._norm(f"{prefix}self_attn.q_norm", query), angles[:, -x.shape[1] :])
        key = turned(self._norm(f"{prefix}self_attn.k_norm", key), angles)
        groups = config.heads // config.kv_heads
        mixed = functional.scaled_dot_product_attention(
            query.transpose(1, 2),
            key.transpose(1, 2).repeat_interleave(groups, dim=1),
            value.transpose(1, 2).repeat_interleave(groups, dim=1),
            attn_mask=mask,
        )
        x = x + self._linear(f"{prefix}self_attn.o_proj", mixed.transpose(1, 2).flatten(2))
        inner = self._norm(f"{prefix}post_attention_layernorm", x)
        gate = functional.silu(self._linear(f"{prefix}mlp.gate_proj", inner))
        up = self._linear(f"{prefix}mlp.up_proj", inner)
        return x + self._linear(f"{prefix}mlp.down_proj", gate * up)

    def _linear(self, name: str, x: Tensor) -> Tensor:
        return functional.linear(x, self.tensors[f"{name}.weight"])

    def _heads(self, name: str, x: Tensor, heads: int) -> Tensor:
        return self._linear(name, x).unflatten(-1, (heads, self.config.head_dim))


def loaded(folder: Path | str, device: torch.device) -> Draft:
    """A draft that was saved, in float32. Raises what reading a published one raises."""
    folder = Path(folder)
    config = read_config(folder / "config.json")
    tensors = {name: each.to(device, torch.float32) for name, each in read_tensors(folder).items()}
    return Draft(config, tensors, torch.ones(len(config.target_layer_ids), device=device))


def turned(x: Tensor, angles: Tensor) -> Tensor:
    """Rotate x [sequences, rows, heads, dim] by complex angles [sequences, rows, dim / 2].

    Dimension i goes with dimension i + dim / 2, as in the published weights.
    """
    first, second = x.float().chunk(2, dim=-1)
    pairs = torch.complex(first, second) * angles[:, :, None]
    return torch.cat((pairs.real, pairs.imag), dim=-1).to(x.dtype)
