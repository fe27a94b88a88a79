"""The DFlash draft: a few Qwen3 layers that fill in a block of masks in one pass.

Queries come from the block: the last committed token and masks behind it. Keys and values come from
the block and from the context, where they are projections of target features, not of embeddings:
the outputs of some target layers, side by side, through `fc` and a norm (arXiv 2602.06036).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from dflash_deploy.errors import Unsupported
from dflash_deploy.speculative.best import best_tokens
from dflash_deploy.speculative.cache import Band, KVCache
from dflash_deploy.speculative.config import DraftConfig
from dflash_deploy.speculative.layers import CachePlace, DecoderLayer, Heads, LayerWeights, RMSNorm
from dflash_deploy.speculative.linear import Linear
from dflash_deploy.speculative.rope import Rope, interleave, rotate
from dflash_deploy.speculative.sampling import Chooser, Proposal
from dflash_deploy.speculative.twin import twin

# a sampled draft draws from this many of its likeliest tokens; the target's rule makes up for it
CANDIDATES = 64

Shapes = dict[str, tuple[int, ...]]


def expected_shapes(config: DraftConfig) -> Shapes:
    """Every published tensor of a DFlash draft and its shape."""
    hidden, inner = config.hidden_size, config.intermediate_size
    query, key = config.heads * config.head_dim, config.kv_heads * config.head_dim
    layer = {
        "input_layernorm": (hidden,),
        "post_attention_layernorm": (hidden,),
        "self_attn.q_proj": (query, hidden),
        "self_attn.k_proj": (key, hidden),
        "self_attn.v_proj": (key, hidden),
        "self_attn.o_proj": (hidden, query),
        "self_attn.q_norm": (config.head_dim,),
        "self_attn.k_norm": (config.head_dim,),
        "mlp.gate_proj": (inner, hidden),
        "mlp.up_proj": (inner, hidden),
        "mlp.down_proj": (hidden, inner),
    }
    shapes: Shapes = {
        "fc.weight": (hidden, len(config.target_layer_ids) * hidden),
        "hidden_norm.weight": (hidden,),
        "norm.weight": (hidden,),
    }
    for index in range(config.layers):
        shapes |= {f"layers.{index}.{name}.weight": shape for name, shape in layer.items()}
    return shapes


class DraftModel(nn.Module):
    """Weights and forward pass; sequences live in the `KVCache` that `open` returns."""

    def __init__(self, config: DraftConfig, tensors: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.config = config
        self.heads = Heads(config.heads, config.kv_heads, config.head_dim)
        self.rope = draft_rope(config)
        self.fc = Linear(tensors["fc.weight"])
        self.hidden_norm = RMSNorm(tensors["hidden_norm.weight"], config.norm_eps)
        self.norm = RMSNorm(tensors["norm.weight"], config.norm_eps)
        layers = [_layer(tensors, index) for index in range(config.layers)]
        self.layers = nn.ModuleList(
            self.build_layer(weights, index) for index, weights in enumerate(layers)
        )
        self.context = _ContextProjection(layers, self.heads, config.norm_eps)
        self._bands: dict[object, Band] = {}

    def build_layer(self, weights: LayerWeights, index: int) -> nn.Module:
        """One layer; DFlash 2 builds another."""
        return DecoderLayer(weights, self.heads, self.config.norm_eps, index)

    @property
    def device(self) -> torch.device:
        return self.fc.weight.device

    @property
    def dtype(self) -> torch.dtype:
        return self.fc.weight.dtype

    def joined(self, device: torch.device, dtype: torch.dtype) -> Self:
        """A copy to prepare for one target; tensors that fit as they are stay shared."""
        return twin(self).to(device=device, dtype=dtype)

    def prepare(self, widths: Sequence[int]) -> None:
        """Trade exactness for speed in the layers; `widths` are the rows of context to expect.

        Only the layers: rounding the context as well costs a fifth of the tokens accepted.
        """
        for layer in self.layers:
            if isinstance(layer, DecoderLayer):
                layer.round()
        for linear in (self.fc, self.context.kv):
            for rows in widths:
                linear.pack(rows)

    def open(self, capacity: int) -> KVCache:
        """Keys and values of one sequence."""
        shape = (self.config.layers, self.heads.key, capacity, self.heads.dim)
        return KVCache(shape, dtype=self.dtype, device=self.device)

    def add_context(self, cache: KVCache, features: Tensor) -> None:
        """Write features [rows, taps * hidden_size] behind the committed positions.

        `cache.length` stays: how many of the rows are committed is for the caller to say.
        """
        start = cache.length
        stop = start + features.shape[0]
        angles = self.rope.angles(start, stop, self.device)
        keys, values = self.context(self.hidden_norm(self.fc(features)), angles)
        cache.keys[:, :, start:stop].copy_(keys)
        cache.values[:, :, start:stop].copy_(values)

    def forward(self, embedded: Tensor, cache: KVCache) -> Tensor:
        """Final hidden states [rows, hidden_size] of a block behind the committed context."""
        start, rows = cache.length, embedded.shape[0]
        angles = self.rope.angles(start, start + rows, self.device)
        x = embedded
        places: dict[tuple[bool, int | None], CachePlace] = {}
        kinds = zip(self.config.causal, self.config.windows, strict=True)
        for index, (layer, kind) in enumerate(zip(self.layers, kinds, strict=True)):
            if kind not in places:
                places[kind] = CachePlace(angles, cache, start, self.mask(index, rows, cache))
            x = layer(x, places[kind])
        return self.norm(x)

    def shape_logits(self, logits: Tensor) -> Tensor:
        """Scale and soft-cap what the target's head says about the draft's hidden states."""
        if self.config.output_multiplier != 1:
            logits = logits * self.config.output_multiplier
        cap = self.config.logit_softcap
        return logits if cap is None else cap * torch.tanh(logits / cap)

    def propose(
        self, hidden: Tensor, logits: Tensor, anchor: int | Tensor, chooser: Chooser
    ) -> Proposal:
        """Draft tokens from hidden [rows, hidden_size] and logits [rows, vocab] behind `anchor`."""
        del hidden, anchor  # each row stands for itself; DFlash 2 uses both
        if chooser.greedy:
            best = best_tokens(logits)
            return Proposal(best, logits.softmax(-1).gather(1, best[:, None])[:, 0])
        likely = (logits.float() / chooser.temperature).topk(min(CANDIDATES, logits.shape[-1]))
        weights = likely.values.softmax(-1)
        drawn = torch.multinomial(weights, 1, generator=chooser.generator)
        tokens = likely.indices.gather(1, drawn)[:, 0]
        return Proposal(tokens, weights[:, 0], likely.indices, weights)

    def mask(self, index: int, rows: int, cache: KVCache) -> Tensor | None:
        """What `rows` rows behind a sequence may see in one layer; None is everything."""
        causal, window = self.config.causal[index], self.config.windows[index]
        if window is None and not causal:
            return None
        key = (rows, causal, window, self.dtype, self.device)
        if key not in self._bands:
            self._bands[key] = Band(
                rows,
                self.heads.groups,
                causal=causal,
                window=window,
                dtype=self.dtype,
                device=self.device,
            )
        return self._bands[key].at(cache.length)

    def spec_generate(
        self,
        input_ids: Tensor | Mapping[str, Tensor],
        max_new_tokens: int,
        temperature: float = 0.0,
        *,
        target: Any,
        stop_token_ids: Sequence[int] | None = None,
        seed: int | None = None,
    ) -> Tensor:
        """Continue one prompt with `target`; return prompt and answer, [1, length].

        `input_ids` is [1, prompt], or what a tokenizer returns with `return_tensors="pt"`; several
        rows are several calls. `target` is a transformers model or what `load_target` returns; it
        is made ready at the first call. Above temperature 0 the answer is another one each time,
        unless there is a `seed`.
        Raises TypeError if `input_ids` is no tensor of token ids, ValueError if it is not one row,
        is empty or padded, has a token outside the vocabulary, or exceeds the target's context
        together with `max_new_tokens`; Unsupported if the draft was made for another target.
        """
        from dflash_deploy.speculative.generate import generate
        from dflash_deploy.speculative.types import Sampling

        sampling = Sampling(
            max_new_tokens, temperature, seed=seed, stop_token_ids=frozenset(stop_token_ids or ())
        )
        return generate(self, target, input_ids, sampling)


class _ContextProjection(nn.Module):
    """Keys and values of the context for all layers at once: they share their input."""

    norms: Tensor

    def __init__(self, layers: Sequence[LayerWeights], heads: Heads, eps: float) -> None:
        super().__init__()
        self._heads, self._eps = heads, eps
        keys = [interleave(layer["self_attn.k_proj"], heads.dim) for layer in layers]
        values = [layer["self_attn.v_proj"] for layer in layers]
        self.kv = Linear(torch.cat([*keys, *values]))
        norms = [interleave(layer["self_attn.k_norm"], heads.dim) for layer in layers]
        self.register_buffer("norms", torch.stack(norms)[:, None])

    def forward(self, fused: Tensor, angles: Tensor) -> tuple[Tensor, Tensor]:
        """Keys, rotated, and values, each [layers, kv_heads, rows, head_dim]."""
        rows, dim = fused.shape[0], self._heads.dim
        keys, values = self.kv(fused).view(rows, 2, -1, self._heads.key, dim).unbind(1)
        normed = nn.functional.rms_norm(keys, (dim,), None, self._eps) * self.norms
        rotated = rotate(normed.flatten(1, 2), angles).view_as(keys)
        return rotated.permute(1, 2, 0, 3), values.permute(1, 2, 0, 3)


def draft_rope(config: DraftConfig) -> Rope:
    """The rotation that a draft's config.json asks for."""
    from transformers import Qwen3Config

    try:
        parsed = Qwen3Config(**config.raw)
    except (TypeError, ValueError, KeyError) as error:
        raise Unsupported(f"the draft's config.json is not a Qwen3 config: {error}") from error
    return Rope(parsed)


def _layer(tensors: Mapping[str, Tensor], index: int) -> LayerWeights:
    prefix = f"layers.{index}."
    return LayerWeights(
        {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
    )
