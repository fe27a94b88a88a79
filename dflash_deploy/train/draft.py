"""The DFlash draft in training: the published tensors as they are, many blocks in one pass.

The same mathematics as `speculative.model`, whose weights are fused and reordered for serving.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from dflash_deploy.speculative.config import DraftConfig, read_config
from dflash_deploy.speculative.model import draft_rope, expected_shapes
from dflash_deploy.speculative.model2 import expected_shapes2
from dflash_deploy.speculative.rope import Rope
from dflash_deploy.speculative.weights import read_tensors
from dflash_deploy.train import refined
from dflash_deploy.train.blocks import Batch, positions, visible
from dflash_deploy.train.loss import More

SPREAD = 0.02
"""Standard deviation of fresh matrices."""


def fresh(config: DraftConfig, final_norm: Tensor, seed: int) -> dict[str, Tensor]:
    """Untrained weights under their published names. `final_norm`: where `norm.weight` starts."""
    chance = torch.Generator().manual_seed(seed)
    shapes = expected_shapes2(config) if config.refinement else expected_shapes(config)
    tensors = {
        name: torch.ones(shape) if len(shape) == 1
        else torch.randn(shape, generator=chance) * SPREAD
        for name, shape in shapes.items()
    }  # fmt: skip
    # what a layer adds starts small beside what comes in
    for name in tensors:
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            tensors[name] /= (2 * config.layers) ** 0.5
    # features of size 1 come out at about that size
    tensors["fc.weight"] /= SPREAD * tensors["fc.weight"].shape[1] ** 0.5
    tensors["norm.weight"] = final_norm.float().clone()
    refined.begin(tensors, final_norm)
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
        inner, leave = self._enter(
            f"{prefix}attention_conv", self._norm(f"{prefix}input_layernorm", x)
        )
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
        x = x + leave(self._linear(f"{prefix}self_attn.o_proj", mixed.transpose(1, 2).flatten(2)))
        inner = self._norm(f"{prefix}post_attention_layernorm", x)
        inner, leave = self._enter(f"{prefix}mlp_conv", inner)
        gate = functional.silu(self._linear(f"{prefix}mlp.gate_proj", inner))
        up = self._linear(f"{prefix}mlp.up_proj", inner)
        return x + leave(self._linear(f"{prefix}mlp.down_proj", gate * up))

    def _enter(self, name: str, x: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """What goes into a sublayer, and what is done with what comes out of it."""
        if self.config.refinement is None:
            return x, lambda y: y
        base, block = self.tensors[f"{name}.base_kernel"], self.config.block_size
        kernels = self._linear(f"{name}.kernel_projection", x).unflatten(-1, (2, len(base[0]), -1))
        entering = refined.convolved(x, base[0], kernels[:, :, 0], block)
        return entering, lambda y: refined.convolved(y, base[1], kernels[:, :, 1], block)

    def more(self, rows: Tensor, previous: Tensor, dtype: torch.dtype) -> More | None:
        """What the selector adds to the logits of rows [sequences, anchors, block - 1, hidden]."""
        if self.config.refinement is None:
            return None
        queries = refined.trained(refined.queries(self.tensors, rows, previous))
        gains = self.tensors[refined.SUCCESSORS]
        return More(queries.flatten(0, 2).to(dtype), gains.to(dtype))

    def guesses(self, rows: Tensor, previous: Tensor, head: Tensor, bias: Tensor | None) -> Tensor:
        """The token that each row [..., hidden] drafts behind the token `previous` [...]."""
        logits = functional.linear(rows.to(head.dtype), head, bias)
        refinement = self.config.refinement
        if refinement is None:
            return logits.argmax(-1)
        top = refinement.selector_top_k
        return refined.selected(self.tensors, logits.float(), rows, previous, top)

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
