"""A draft's published config.json as one frozen value.

Fields are those of the drafts on the hub: the layer stack at the top level, what is particular to
DFlash in `dflash_config`, some in either place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dflash_deploy.errors import DownloadError, Unsupported

ARCHITECTURES = {"DFlashDraftModel": False, "DFlash2DraftModel": True}


@dataclass(frozen=True)
class Refinement:
    """What DFlash 2 adds: a grouped dynamic convolution and a path selector over candidates."""

    conv_kernel: int
    conv_group: int
    selector_rank: int
    selector_top_k: int


@dataclass(frozen=True)
class DraftConfig:
    """One draft. `windows` and `causal` have an entry a layer; a window of None is unlimited."""

    hidden_size: int
    intermediate_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab_size: int
    norm_eps: float
    block_size: int
    mask_token_id: int
    target_layer_ids: tuple[int, ...]
    target_layers: int
    windows: tuple[int | None, ...]
    causal: tuple[bool, ...]
    refinement: Refinement | None
    embedding_scale: float
    output_multiplier: float
    logit_softcap: float | None
    raw: Mapping[str, Any]


def read_config(path: Path) -> DraftConfig:
    """Read config.json. Raises DownloadError if it is not JSON, Unsupported if it is no draft."""
    try:
        raw = json.loads(path.read_bytes())
    except OSError as error:
        raise DownloadError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise DownloadError(f"{path} is not JSON: {error}") from error
    if not isinstance(raw, dict):
        raise DownloadError(f"{path} is not a JSON object")
    return parse_config(raw, str(path))


def parse_config(raw: Mapping[str, Any], where: str) -> DraftConfig:
    """Check every field that is used, and name the first that is wrong."""
    fields = _Fields(raw, where)
    second = fields.architecture()
    layers = fields.count("num_hidden_layers")
    heads, kv_heads = fields.count("num_attention_heads"), fields.count("num_key_value_heads")
    if heads % kv_heads:
        raise fields.wrong("num_key_value_heads", kv_heads, "a divisor of num_attention_heads")
    hidden = fields.count("hidden_size")
    vocabulary, mask = fields.count("vocab_size"), fields.count("mask_token_id", least=0)
    if mask >= vocabulary:
        raise fields.wrong("mask_token_id", mask, f"a token of the {vocabulary} in the vocabulary")
    fields.refuse_variants()
    kinds = fields.layer_types(layers)
    return DraftConfig(
        hidden_size=hidden,
        intermediate_size=fields.count("intermediate_size"),
        layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=fields.count("head_dim", default=hidden // heads),
        vocab_size=vocabulary,
        norm_eps=fields.number("rms_norm_eps", default=1e-6),
        block_size=fields.count("block_size", least=2),
        mask_token_id=mask,
        target_layer_ids=fields.taps(),
        target_layers=fields.count("num_target_layers"),
        windows=fields.windows(kinds),
        causal=fields.causality(kinds),
        refinement=fields.refinement(hidden) if second else None,
        embedding_scale=fields.number("input_embedding_scale", default=1.0),
        output_multiplier=fields.number("output_multiplier", default=1.0),
        logit_softcap=fields.optional_number("final_logit_softcapping"),
        raw=raw,
    )


class _Fields:
    """Looks a field up in `dflash_config` first and then at the top level."""

    def __init__(self, raw: Mapping[str, Any], where: str) -> None:
        inner = raw.get("dflash_config") or {}
        if not isinstance(inner, Mapping):
            raise Unsupported(f"{where}: dflash_config is {inner!r}; it should be an object")
        self._raw, self._inner, self._where = raw, inner, where

    def get(self, name: str) -> Any:
        value = self._inner.get(name)
        return self._raw.get(name) if value is None else value

    def wrong(self, name: str, value: object, wanted: str) -> Unsupported:
        if value is None:
            return Unsupported(f"{self._where}: {name} is missing; it should be {wanted}")
        return Unsupported(f"{self._where}: {name} is {value!r}; it should be {wanted}")

    def count(self, name: str, *, default: int | None = None, least: int = 1) -> int:
        value = self.get(name)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self.wrong(name, value, f"a whole number of at least {least}")
        return value

    def number(self, name: str, *, default: float) -> float:
        value = self.optional_number(name)
        return default if value is None else value

    def optional_number(self, name: str) -> float | None:
        value = self.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
            raise self.wrong(name, value, "a positive number")
        return float(value)

    def architecture(self) -> bool:
        """Whether it is DFlash 2."""
        names = self._raw.get("architectures") or [None]
        name = names[0] if isinstance(names, list) else names
        if name not in ARCHITECTURES:
            raise self.wrong("architectures", name, " or ".join(ARCHITECTURES))
        return ARCHITECTURES[name]

    def refuse_variants(self) -> None:
        """Fields that change the mathematics and that nothing here implements."""
        for name in ("projector_type", "attention_sink_bias", "sample_from_anchor"):
            if self.get(name):
                raise Unsupported(f"{self._where}: {name} {self.get(name)!r} is not implemented")
        activation = self.get("hidden_act") or "silu"
        if activation != "silu":
            raise self.wrong("hidden_act", activation, "silu")
        if self.get("attention_value_scale") not in {None, 1}:
            raise Unsupported(f"{self._where}: attention_value_scale is not implemented")

    def taps(self) -> tuple[int, ...]:
        value = self.get("target_layer_ids")
        if not isinstance(value, list) or not value or not all(type(i) is int for i in value):
            raise self.wrong("target_layer_ids", value, "a list of layer numbers")
        layers = self.count("num_target_layers")
        if not all(0 <= layer < layers for layer in value):
            raise self.wrong("target_layer_ids", value, f"layers from 0 to {layers - 1}")
        return tuple(value)

    def layer_types(self, layers: int) -> list[str]:
        kinds = self.get("layer_types")
        if self.get("use_swa"):
            return ["sliding_attention"] * layers
        if kinds is None:
            return ["full_attention"] * layers
        known = {"full_attention", "sliding_attention"}
        if not isinstance(kinds, list) or len(kinds) != layers or not known.issuperset(kinds):
            wanted = f"{layers} entries of full_attention or sliding_attention"
            raise self.wrong("layer_types", kinds, wanted)
        return kinds

    def windows(self, kinds: list[str]) -> tuple[int | None, ...]:
        if "sliding_attention" not in kinds:
            return (None,) * len(kinds)
        name = "swa_window_size" if self.get("swa_window_size") is not None else "sliding_window"
        window = self.count(name)
        return tuple(window if kind == "sliding_attention" else None for kind in kinds)

    def causality(self, kinds: list[str]) -> tuple[bool, ...]:
        """`is_causal`, else `dflash_config.causal`, else by layer: sliding is causal, full not."""
        for name, value in (
            ("is_causal", self.get("is_causal")),
            ("causal", self._inner.get("causal")),
        ):
            if isinstance(value, bool):
                return (value,) * len(kinds)
            if value is not None:
                raise self.wrong(name, value, "true or false")
        return tuple(kind == "sliding_attention" for kind in kinds)

    def refinement(self, hidden: int) -> Refinement:
        group = self.count("conv_group_size")
        if hidden % group:
            raise self.wrong("conv_group_size", group, "a divisor of hidden_size")
        return Refinement(
            conv_kernel=self.count("conv_kernel_size"),
            conv_group=group,
            selector_rank=self.count("selector_rank"),
            selector_top_k=self.count("selector_top_k"),
        )
