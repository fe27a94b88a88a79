"""Llama, Qwen2 and Qwen3 targets in a forward pass of our own: fused, packed, cached in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from dflash_deploy.errors import Unsupported
from dflash_deploy.speculative.cache import Band, KVCache, rounded_up
from dflash_deploy.speculative.exact import KEYS, ExactPlace
from dflash_deploy.speculative.joint import JointPlace, padded_rows
from dflash_deploy.speculative.layers import (
    CachePlace,
    DecoderLayer,
    Heads,
    LayerWeights,
    Place,
    RMSNorm,
)
from dflash_deploy.speculative.linear import Linear, linears
from dflash_deploy.speculative.rope import STATIC_TYPES, Rope, rope_type
from dflash_deploy.speculative.rounded import can_round
from dflash_deploy.speculative.screen import Screen, can_screen
from dflash_deploy.speculative.target import Rows, Said, TargetShape, shape_of

FAMILIES = frozenset({"LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"})

# rows of a prompt that go through together: bounds the attention mask, not the speed
PREFILL_ROWS = 512

# bytes of weights that are kept again for each width: a larger target needs the memory itself
PACKED_AT_MOST = 4 << 30


def fits(model: Any) -> bool:
    """Whether this forward pass computes exactly what the transformers model does."""
    config = model.config
    return (
        type(model).__name__ in FAMILIES
        and getattr(config, "quantization_config", None) is None
        and config.hidden_act == "silu"
        and rope_type(config) in STATIC_TYPES
        and set(getattr(config, "layer_types", None) or ["full_attention"]) == {"full_attention"}
        and all(parameter.dtype == model.dtype for parameter in model.parameters())
    )


class DecoderTarget(nn.Module):
    """A target whose weights were taken from a transformers model that `fits`."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        config = model.config
        tensors: Mapping[str, Tensor] = {k: v.detach() for k, v in model.state_dict().items()}
        self.shape: TargetShape = shape_of(config)
        self.heads = Heads(
            query=config.num_attention_heads,
            key=config.num_key_value_heads,
            dim=getattr(config, "head_dim", None)
            or config.hidden_size // config.num_attention_heads,
        )
        self.dtype: torch.dtype = model.dtype
        self.device: torch.device = model.device
        self.rope = Rope(config)
        eps = config.rms_norm_eps
        self.layers = nn.ModuleList(
            DecoderLayer(_layer(tensors, index), self.heads, eps, index)
            for index in range(config.num_hidden_layers)
        )
        self.norm = RMSNorm(tensors["model.norm.weight"], eps)
        self.embedding = tensors["model.embed_tokens.weight"]
        self._bands: dict[int, Band] = {}
        self._packed: tuple[int, ...] = ()
        self.exact = False
        """Whether a row is the same, bit for bit, in every block."""
        self.lm_head = Linear(tensors.get("lm_head.weight", self.embedding))
        self._screen: Screen | None = None

    def embed(self, ids: Tensor) -> Tensor:
        return functional.embedding(ids, self.embedding)

    def head(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.lm_head(hidden)
        return logits

    def head_weight(self) -> Tensor:
        return self.lm_head.weight

    def prepare(self, widths: Sequence[int]) -> None:
        """Pack the weights for `widths` rows, and the head for its best tokens.

        Not where a copy for each would be too large.
        """
        if self.weight_bytes > PACKED_AT_MOST:
            return
        for linear in linears(self):
            for rows in (1, *widths):
                linear.pack(rows)
        if self._screen is None and not self.lm_head.rounded and can_screen(self.lm_head.weight):
            self._screen = Screen(self.lm_head.weight)
        self._packed = tuple(sorted(self.lm_head.packed_rows))
        self._bands |= {rows: self._band(rows) for rows in widths}

    def round(self) -> None:
        """Compute in 8 bits from now on: another model, but one whose rows are exact.

        A token's logits are then the same, bit for bit, alone and in a block. Raises Unsupported
        where the kernels are missing.
        """
        if not can_round(self.lm_head.weight):
            raise Unsupported(
                "int8 needs a target in float32 on an x86 CPU", hint="--dtype float32"
            )
        for linear in linears(self):
            linear.round_rows()
        self.exact = True
        self._packed, self._screen = (), None

    def run(self, ids: Tensor, place: Place, taps: Sequence[int]) -> tuple[Tensor, Tensor | None]:
        """The last layer's output for ids [rows], and the tapped layers' side by side."""
        x = self.embed(ids)
        tapped: dict[int, Tensor] = {}
        for index, layer in enumerate(self.layers):
            x = layer(x, place)
            if index in taps:
                tapped[index] = x
        last = len(self.layers) - 1
        if last in tapped:
            # transformers shows the last layer's output behind the final norm
            tapped[last] = self.norm(x)
        return x, torch.cat([tapped[tap] for tap in taps], dim=-1) if taps else None

    def check(self, sessions: Sequence[DecoderSession], blocks: Sequence[Tensor]) -> list[Rows]:
        """Append a block to each session, in one pass; all rows' logits of each.

        What a session is told does not depend on the others: `padded_rows` says why.
        """
        counts = [len(block) for block in blocks]
        rows = padded_rows(sum(counts), self._packed)
        ids = torch.cat((*blocks, blocks[0].new_zeros(rows - sum(counts))))
        places = [session.place(count) for session, count in zip(sessions, counts, strict=True)]
        taps = max((session.taps for session in sessions), key=len)
        x, features = self.run(ids, JointPlace.of(places, counts, rows), taps)
        said = self.said(x)
        ends = list(accumulate(counts))
        told = [None] * len(counts) if features is None else features[: sum(counts)].split(counts)
        for session, count in zip(sessions, counts, strict=True):
            session.crop(session.length + count)
        return [
            Rows(said, seen if session.taps else None, slice(end - count, end))
            for session, count, end, seen in zip(sessions, counts, ends, told, strict=True)
        ]

    def said(self, last: Tensor) -> Said:
        """What the head says of the last layer's output."""
        return Said(self.norm(last), self.head, self._screen)

    def mask(self, rows: int, start: int) -> Tensor | None:
        """What `rows` rows from position `start` on may see; None is everything."""
        if rows == 1:
            return None
        # the widths of blocks come again; a prompt's last part has a width of its own
        band = self._bands.get(rows) or self._band(rows)
        return band.at(start)

    def _band(self, rows: int) -> Band:
        return Band(
            rows,
            self.heads.groups,
            causal=True,
            window=None,
            dtype=self.dtype,
            device=self.device,
        )

    @property
    def weight_bytes(self) -> int:
        return sum(linear.weight.nbytes for linear in linears(self))

    def open(self, capacity: int, taps: Sequence[int]) -> DecoderSession:
        return DecoderSession(self, capacity, taps)


class DecoderSession:
    """One sequence and its cache."""

    def __init__(self, target: DecoderTarget, capacity: int, taps: Sequence[int]) -> None:
        heads = target.heads
        self._target = target
        self.taps = tuple(taps)
        self.cache = KVCache(
            (
                target.shape.layers,
                heads.key,
                rounded_up(capacity, KEYS) if target.exact else capacity,
                heads.dim,
            ),
            dtype=target.dtype,
            device=target.device,
        )

    @property
    def length(self) -> int:
        return self.cache.length

    def crop(self, length: int) -> None:
        self.cache.length = length

    def forward(self, ids: Tensor, logits: int) -> Rows:
        if 1 < len(ids) == logits:
            return self._target.check([self], [ids])[0]
        parts = [self._chunk(chunk) for chunk in ids.split(PREFILL_ROWS)]
        # one chunk at most is asked for logits in practice; joining a few rows is cheap
        hidden = torch.cat([part for part, _ in parts]) if len(parts) > 1 else parts[0][0]
        features = [part for _, part in parts if part is not None]
        return Rows(
            self._target.said(hidden[-logits:]),
            torch.cat(features) if features else None,
        )

    def place(self, rows: int) -> CachePlace | ExactPlace:
        """Where the next `rows` rows stand."""
        target, start = self._target, self.cache.length
        angles = target.rope.angles(start, start + rows, target.device)
        if target.exact:
            return ExactPlace(angles, self.cache, start)
        return CachePlace(angles, self.cache, start, target.mask(rows, start))

    def _chunk(self, ids: Tensor) -> tuple[Tensor, Tensor | None]:
        rows = len(ids)
        seen = self._target.run(ids, self.place(rows), self.taps)
        self.cache.length += rows
        return seen


def _layer(tensors: Mapping[str, Tensor], index: int) -> LayerWeights:
    prefix = f"model.layers.{index}."
    return LayerWeights(
        {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
    )
