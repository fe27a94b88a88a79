"""A target's config.json as a registry target: what the memory estimate and the rules need. Pure.

Multimodal models keep the language model in `text_config`; the class is the outer one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from dflash_deploy.errors import Unsupported
from dflash_deploy.model_config import (
    DTYPES,
    MOST_LAYERS,
    Fields,
    Stored,
    architecture,
    attention,
    inner,
    quantization,
    shown,
)
from dflash_deploy.schema import Layers, Target, Weights

BY_HAND = "write the entry by hand: templates/entry.yaml"
KINDS = {
    "full_attention": "full", "attention": "full", "sliding_attention": "sliding",
    "linear_attention": "linear", "mamba": "linear", "moe": "none", "mlp": "none",
}  # fmt: skip
"""The words of `layer_types`; `none` keeps nothing from token to token."""
LETTERS = {"*": "full", "M": "linear", "E": "none", "-": "none"}
"""The letters of Nemotron-H's `hybrid_override_pattern`."""
TYPES = {"1": "full", "0": "linear"}
"""The numbers of MiniMax's `attn_type_list`."""
UNREAD = ("pattern", "attn_type", "block_type", "compress_ratio")
"""Parts of the names under which other families say which layer is of which kind."""
LAYERS_FROM = (
    "layer_types", "layers_block_type", "hybrid_override_pattern", "attn_type_list",
    "linear_attn_config", "full_attention_interval", "sliding_window_pattern", "sliding_window",
    "kv_lora_rank",
)  # fmt: skip
STATE = (
    "linear_num_value_heads", "linear_num_key_heads", "linear_key_head_dim",
    "linear_value_head_dim", "linear_conv_kernel_dim",
)  # fmt: skip


@dataclass(frozen=True)
class ReadTarget:
    target: Target
    layers: int
    """All of them, those that keep nothing included."""
    own_code: bool
    """Whether its repository brings Python code."""
    origins: Mapping[str, str]


def read_target(
    config: Mapping[str, Any], target_id: str, *,
    revision: str | None = None, stored: Stored | None = None,
) -> ReadTarget:  # fmt: skip
    """What a config.json says of a target. Licence, thinking and parsers are not in it.

    Raises Unsupported for fields that are missing or wrong, all of them at once, and for layers of
    a kind that nothing here knows.
    """
    part = next((key for key in ("text_config", "language_config", "llm_config")
                 if inner(config, key)), "")  # fmt: skip
    text = inner(config, part) or config
    fields = Fields(target_id, (f"{part}." if part else "", text), ("", config))
    outer = Fields(target_id, ("", config))
    name = architecture(outer)
    fields.missing += outer.missing
    fields.errors += outer.errors
    kinds = layer_kinds(fields, text)
    layers = attention(fields, kinds) if {"full", "sliding"} & {*kinds} else []
    if "linear" in kinds:
        layers.append(recurrent(fields, kinds.count("linear")))
    target = Target(
        family=family(config, target_id), architecture=name or "", parameters=None,
        hidden_size=fields.count("hidden_size"), vocab_size=fields.count("vocab_size"),
        context=fields.optional_count("max_position_embeddings"), licence=None, gated=None,
        layers=layers, minimum=None,
        weights=[Weights(name=weights_name(config, fields), revision=revision,
                         gib=stored.gib if stored else None)],
    )  # fmt: skip
    fields.refuse(hint=BY_HAND)
    told = (fields.origins[name] for name in LAYERS_FROM if name in fields.origins)
    fields.origins["layers"] = ", ".join(told) or "num_hidden_layers, all alike"
    return ReadTarget(target, len(kinds), "auto_map" in config, fields.origins)


def family(config: Mapping[str, Any], target_id: str) -> str:
    named = str(config.get("model_type"))
    return named if "model_type" in config and named.isidentifier() else target_id.partition("/")[2]


def layer_kinds(fields: Fields, text: Mapping[str, Any]) -> list[str]:
    """One word a layer: full, sliding, linear, or none for a layer without either."""
    number = fields.count("num_hidden_layers", most=MOST_LAYERS)
    told = fields.words("layer_types") or fields.words("layers_block_type")
    letters = fields.get("hybrid_override_pattern")
    if told:
        return translated(fields, "layer_types", told, KINDS, number)
    if isinstance(letters, str):
        return translated(fields, "hybrid_override_pattern", [*letters], LETTERS, number)
    if isinstance(types := fields.get("attn_type_list"), list):
        return translated(fields, "attn_type_list", [str(one) for one in types], TYPES, number)
    if linear := inner(text, "linear_attn_config"):
        full = linear.get("full_attn_layers") or []  # counted from 1
        fields.origins["linear_attn_config"] = "linear_attn_config"
        return ["full" if layer + 1 in full else "linear" for layer in range(number)]
    every = fields.optional_count("full_attention_interval")
    other: Literal["linear", "sliding"] = "linear"
    if every is None:
        every, other = fields.optional_count("sliding_window_pattern"), "sliding"
    if every is not None:
        return ["full" if (layer + 1) % every == 0 else other for layer in range(number)]
    refuse_unread(fields, text)
    return [only_kind(fields)] * number


def translated(
    fields: Fields, name: str, told: list[str], words: Mapping[str, str], number: int
) -> list[str]:
    if unknown := sorted({*told} - words.keys()):
        raise Unsupported(
            f"{fields.name} has layers of a kind not known here: {', '.join(map(shown, unknown))}",
            hint=BY_HAND,
        )
    if len(told) != number:
        fields.wrong(name, len(told), f"as long as num_hidden_layers, {number}")
    return [words[one] for one in told]


def refuse_unread(fields: Fields, text: Mapping[str, Any]) -> None:
    """Better no entry than one with all layers alike, for a model that mixes them."""
    for key, value in text.items():
        if isinstance(value, (list, str)) and any(part in key for part in UNREAD):
            raise Unsupported(
                f"{fields.name} tells its layers apart in {shown(key)}, which nothing here reads",
                hint=BY_HAND,
            )


def only_kind(fields: Fields) -> str:
    """Full attention, unless a window is said, in use, and shorter than the context."""
    window = fields.optional_count("sliding_window")
    context = fields.optional_count("max_position_embeddings") or 0
    used = fields.flag("use_sliding_window") is not False
    return "sliding" if window and used and window < context else "full"


def recurrent(fields: Fields, count: int) -> Layers:
    """Linear attention. The state's size is known for gated delta nets whose config says its type.

    Bytes of a request, all layers: the recurrent state (value heads x key dim x value dim) as
    stored, and the convolution's last inputs ((2 x key heads x key dim + value heads x value dim)
    x (kernel - 1)) in bf16. Source: vLLM 0.33.0 model_executor/layers/mamba; it gives the states
    published for Qwen3.5-27B.
    """
    told = str(fields.get("mamba_ssm_dtype", "mamba_ssm_cache_dtype")).removeprefix("torch.")
    width = {"float32": 4, "bfloat16": 2}.get(told)
    numbers = [fields.optional_count(name) for name in STATE]
    if width is None or not all(numbers):
        return Layers(kind="linear", count=count)
    values, keys, key_dim, value_dim, kernel = (number or 0 for number in numbers)
    state = values * key_dim * value_dim * width
    inputs = (2 * keys * key_dim + values * value_dim) * (kernel - 1) * 2
    return Layers(
        kind="linear", count=count, state_bytes=count * (state + inputs),
        state_dtype="fp32" if width == 4 else "bf16",
    )  # fmt: skip


def weights_name(config: Mapping[str, Any], fields: Fields) -> str:
    quantized = quantization(config)
    if quantized:
        fields.origins["weights"] = "quantization_config"
        return quantized
    dtype = str(fields.get("dtype", "torch_dtype")).removeprefix("torch.")
    fields.origins["weights"] = fields.origins.get("dtype", "bf16 where nothing is said")
    return DTYPES.get(dtype, "bf16")
