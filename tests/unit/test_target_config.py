"""A target's config.json: its layers by kind, its sizes, its weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dflash_deploy.errors import Unsupported
from dflash_deploy.model_config import Stored
from dflash_deploy.registry import load
from dflash_deploy.schema import Layers
from dflash_deploy.target_config import read_target

ENTRIES = load(user=False).entries
CONFIGS = Path(__file__).parents[1] / "fixtures" / "configs"
PUBLISHED = [
    path for path in sorted(CONFIGS.glob("*/*/config.json"))
    if path.parent.relative_to(CONFIGS).as_posix() in ENTRIES
]  # fmt: skip
SIZES = {
    "num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 8, "num_key_value_heads": 2,
    "head_dim": 8, "vocab_size": 100, "max_position_embeddings": 8192,
}  # fmt: skip


def config(**changes: Any) -> dict[str, Any]:
    return {"architectures": ["TinyForCausalLM"], "model_type": "tiny"} | SIZES | changes


def read(**changes: Any):
    return read_target(config(**changes), "org/tiny")


def kinds(found) -> list[tuple[str, int]]:
    return [(group.kind, group.count) for group in found.target.layers]


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.parent.name)
def test_a_published_config_says_what_the_registry_says(path):
    name = path.parent.relative_to(CONFIGS).as_posix()
    known, found = ENTRIES[name].target, read_target(json.loads(path.read_text()), name).target
    for field in ("architecture", "hidden_size", "vocab_size", "context"):
        if getattr(known, field) is not None:
            assert getattr(found, field) == getattr(known, field), field
    assert found.weights[0].name == known.weights[0].name
    for ours, theirs in zip(known.layers, found.layers, strict=bool(known.layers)):
        for field in ("kind", "count", "kv_heads", "head_dim", "window", "latent_dim"):
            assert getattr(ours, field) == getattr(theirs, field), field
        if theirs.state_bytes is not None:
            assert (ours.state_bytes, ours.state_dtype) == (theirs.state_bytes, theirs.state_dtype)


def test_the_published_configs_are_there():
    assert len(PUBLISHED) >= 20


def test_all_layers_alike():
    found = read()
    assert found.target.layers == [Layers(kind="full", count=4, heads=8, kv_heads=2, head_dim=8)]
    assert (found.layers, found.own_code) == (4, False)
    assert (found.target.family, found.target.licence, found.target.gated) == ("tiny", None, None)
    assert found.target.thinking is None
    assert found.target.weights[0].name == "bf16"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"layer_types": ["sliding_attention", "full_attention"] * 2, "sliding_window": 128},
         [("full", 2), ("sliding", 2)]),
        ({"sliding_window": 128}, [("sliding", 4)]),
        ({"sliding_window": 128, "use_sliding_window": False}, [("full", 4)]),
        ({"sliding_window": 8192}, [("full", 4)]),
        ({"sliding_window_pattern": 2, "sliding_window": 128}, [("full", 2), ("sliding", 2)]),
        ({"full_attention_interval": 4}, [("full", 1), ("linear", 3)]),
        ({"hybrid_override_pattern": "M-*E"}, [("full", 1), ("linear", 1)]),
        ({"attn_type_list": [0, 1, 1, 1]}, [("full", 3), ("linear", 1)]),
        ({"kv_lora_rank": 512, "qk_rope_head_dim": 64}, [("mla", 4)]),
        ({"kv_lora_rank": 512, "qk_rope_head_dim": 64,
          "linear_attn_config": {"full_attn_layers": [4], "kda_layers": [1, 2, 3]}},
         [("mla", 1), ("linear", 3)]),
    ],
)  # fmt: skip
def test_layers_by_kind(changes, expected):
    found = read(**changes)
    assert kinds(found) == expected
    assert found.layers == 4


def test_mla_keeps_the_latent_and_the_rotary_part():
    (layers,) = read(kv_lora_rank=512, qk_rope_head_dim=64).target.layers
    assert (layers.latent_dim, layers.heads, layers.kv_heads) == (576, 8, None)


def test_the_language_model_of_a_multimodal_one():
    outer = {"architectures": ["SeesForConditionalGeneration"], "model_type": "sees"}
    found = read_target(outer | {"text_config": SIZES, "vision_config": {"hidden_size": 1}}, "o/s")
    assert found.target.architecture == "SeesForConditionalGeneration"
    assert (found.target.hidden_size, found.origins["hidden_size"]) == (
        64,
        "text_config.hidden_size",
    )
    outer["text_config"] = SIZES | {"layer_types": ["full_attention"] * 4}
    assert read_target(outer, "o/s").origins["layers"] == "text_config.layer_types"


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"dtype": "float16"}, "fp16"),
        ({"torch_dtype": "bfloat16"}, "bf16"),
        ({"quantization_config": {"quant_method": "fp8"}}, "fp8"),
        ({"quantization_config": {"quant_method": "mxfp4"}}, "mxfp4"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "int4"),
        ({"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}}, "nvfp4"),
        ({"quantization_config": {"quant_method": "compressed-tensors",
                                  "format": "nvfp4-pack-quantized"}}, "nvfp4"),
        ({"quantization_config": {"quant_method": "compressed-tensors", "format": "float-quantized",
                                  "config_groups": {"g": {"weights": {"num_bits": 8,
                                                                      "type": "float"}}}}}, "fp8"),
        ({"quantization_config": {"quant_method": "../../etc"}}, "quantized"),
    ],
)  # fmt: skip
def test_weights_are_named_by_what_they_are(changes, name):
    assert read(**changes).target.weights[0].name == name


def test_size_and_commit_of_the_weights():
    found = read_target(config(), "org/tiny", revision="2" * 40, stored=Stored(3 << 30))
    (weights,) = found.target.weights
    assert (weights.gib, weights.revision) == (3.0, "2" * 40)


def test_a_family_is_a_plain_word():
    assert read(model_type="qwen3_5").target.family == "qwen3_5"
    assert read(model_type="a: \x1b").target.family == "tiny"


def test_its_own_code_is_seen():
    assert read(auto_map={"AutoModel": "modeling.Tiny"}).own_code


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"layer_types": ["chunked_attention"] * 4}, "chunked_attention"),
        ({"layer_types": ["full_attention"] * 3}, "num_hidden_layers"),
        ({"hybrid_override_pattern": "M-*?"}, "?"),
        ({"hybrid_layer_pattern": [0, 1, 1, 1]}, "hybrid_layer_pattern"),
        ({"compress_ratios": [1, 4, 128, 4]}, "compress_ratios"),
        ({"vocab_size": None, "hidden_size": None, "architectures": None},
         "architectures, hidden_size, vocab_size"),
        ({"architectures": ["a\x1b[2Jb"]}, "a\\x1b[2Jb"),
        ({"layer_types": ["\x1b[2J\n"] * 4}, "\\x1b[2J\\n"),
        ({"num_hidden_layers": 10**12}, "1 to 4096"),
        ({"kv_lora_rank": 512}, "qk_rope_head_dim"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_refused_rather_than_guessed(changes, said):
    with pytest.raises(Unsupported) as caught:
        read(**changes)
    assert said in caught.value.message
    assert len(caught.value.message.splitlines()) == 1
