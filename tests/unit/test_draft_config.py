"""A draft's config.json, in both layouts: what is derived, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dflash_deploy.draft_config import (
    Sizes,
    mismatches,
    parameter_count,
    read_draft,
    remarks,
)
from dflash_deploy.errors import Unsupported
from dflash_deploy.model_config import Stored
from dflash_deploy.pairing import draft_classes
from dflash_deploy.registry import load
from dflash_deploy.schema import Layers

REGISTRY = load(user=False)
CLASSES = draft_classes(REGISTRY.engines)
SHIPPED = {draft.id: draft for entry in REGISTRY.entries.values() for draft in entry.model.drafts}
CONFIGS = Path(__file__).parents[1] / "fixtures" / "configs"
UNCOUNTED = {"chutesai/Qwen3-32B-FP8-DFLASH", "poolside/Laguna-XS-2.1-DFlash"}
"""The first one's card counts 3.2 billion parameters, where the sizes that it names make 1.1; of the
second one's class the formula does not hold."""
PUBLISHED = [
    path for path in sorted(CONFIGS.glob("*/*/config.json"))
    if path.parent.relative_to(CONFIGS).as_posix() in SHIPPED
]  # fmt: skip


def z_lab(**changes: Any) -> dict[str, Any]:
    """z-lab/Qwen3-8B-DFlash-b16, with changes; None takes a field away."""
    config: dict[str, Any] = {
        "architectures": ["DFlashDraftModel"], "model_type": "qwen3", "hidden_size": 4096,
        "intermediate_size": 12288, "num_hidden_layers": 5, "num_attention_heads": 32,
        "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936, "block_size": 16,
        "num_target_layers": 36, "max_position_embeddings": 40960,
        "dflash_config": {"mask_token_id": 151669, "target_layer_ids": [1, 9, 17, 25, 33]},
    } | changes  # fmt: skip
    return {name: value for name, value in config.items() if value is not None}


def dflash2(**changes: Any) -> dict[str, Any]:
    """z-lab/Qwen3.8-27B-DFlash2: everything of its own in dflash_config."""
    inner = {
        "mask_token_id": 248070, "target_layer_ids": [5, 19, 33, 47, 61], "block_size": 8,
        "conv_kernel_size": 2, "conv_group_size": 16, "selector_rank": 256, "selector_top_k": 16,
    }  # fmt: skip
    return z_lab(
        architectures=["DFlash2DraftModel"], hidden_size=5120, intermediate_size=17408,
        vocab_size=248320, num_target_layers=64, block_size=None, is_causal=False,
        layer_types=["sliding_attention"] * 5, sliding_window=2048, dflash_config=inner | changes,
    )  # fmt: skip


def speculators(**changes: Any) -> dict[str, Any]:
    """RedHatAI/gemma-4-31B-it-speculator.dflash, as its config.json has it."""
    config: dict[str, Any] = {
        "architectures": ["DFlashDraftModel"], "speculators_model_type": "dflash",
        "aux_hidden_state_layer_ids": [1, 17, 29, 47, 58], "block_size": 8,
        "draft_vocab_size": 32000, "mask_token_id": 4, "target_hidden_size": None,
        "speculators_config": {"verifier": {"name_or_path": "google/gemma-4-31B-it"}},
        "transformer_layer_config": {
            "head_dim": 256, "hidden_size": 5376, "intermediate_size": 21504,
            "max_position_embeddings": 262144, "num_attention_heads": 32,
            "num_hidden_layers": 5, "num_key_value_heads": 16, "vocab_size": 262144,
        },
    }  # fmt: skip
    return config | changes


def read(config: dict[str, Any], **options: Any):
    return read_draft(config, "org/draft", CLASSES, **options)


def refusal(config: dict[str, Any]) -> Unsupported:
    with pytest.raises(Unsupported) as caught:
        read(config)
    assert len(caught.value.message.splitlines()) == 1
    return caught.value


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.parent.name)
def test_a_published_config_says_what_the_registry_says(path):
    known = SHIPPED[path.parent.relative_to(CONFIGS).as_posix()]
    found = read_draft(json.loads(path.read_text()), known.id, CLASSES).draft
    for name in ("kind", "format", "block_size", "architecture", "hidden_size",
                 "target_layer_ids", "mask_token_id", "parameters", "gib"):  # fmt: skip
        counted = name not in ("parameters", "gib") or known.id not in UNCOUNTED
        if counted and getattr(known, name) is not None:
            assert getattr(found, name) == getattr(known, name), name
    kinds = [(group.kind, group.count) for group in found.layers]
    assert not known.layers or kinds == [(group.kind, group.count) for group in known.layers]


def test_the_published_configs_are_there():
    assert len(PUBLISHED) >= 20


def test_z_lab_layout():
    found = read(z_lab(), revision="1" * 40)
    draft = found.draft
    assert (draft.kind, draft.format, draft.block_size) == ("dflash", "z-lab", 16)
    assert draft.layers == [Layers(kind="full", count=5, heads=32, kv_heads=8, head_dim=128)]
    assert (draft.parameters, draft.gib, draft.context) == (1048626432, 1.95, 40960)
    assert (draft.causal, draft.licence, draft.gated, draft.thinking) == (None,) * 4
    assert draft.revision == "1" * 40
    assert (found.target_layers, found.vocab_size, found.verifier) == (36, 151936, None)
    assert found.origins["target_layer_ids"] == "dflash_config.target_layer_ids"
    assert found.origins["block_size"] == "block_size"


def test_dflash_2():
    found = read(dflash2())
    draft = found.draft
    assert found.origins["causal"] == "is_causal"
    assert (draft.kind, draft.block_size, draft.causal) == ("dflash2", 8, False)
    assert draft.layers[0].window == 2048
    assert draft.parameters == 1924404480


def test_speculators_count_the_targets_layers_from_one():
    found = read(speculators())
    assert found.draft.target_layer_ids == [0, 16, 28, 46, 57]
    assert (found.draft.format, found.draft.block_size) == ("speculators", 8)
    assert (found.verifier, found.reads) == ("google/gemma-4-31B-it", 5376)
    assert found.draft.parameters is None  # its own head is no part of the formula


def test_speculators_defaults_and_other_sizes():
    config = speculators(target_hidden_size=2560, architectures=["DFlashSpeculator"])
    del config["block_size"]
    config["speculators_config"] = {"verifier": {"name_or_path": "/home/me/models/target"}}
    found = read(config)
    assert (found.draft.block_size, found.draft.architecture) == (8, "DFlashDraftModel")
    assert (found.reads, found.verifier) == (2560, None)
    assert "default" in found.origins["block_size"]


@pytest.mark.parametrize(
    ("given", "causal"), [(True, False), (False, None), (None, False)], ids=str
)
def test_sliding_layers_of_speculators_look_both_ways_unless_told(given, causal):
    config = speculators(sliding_window_non_causal=given)
    config["transformer_layer_config"] |= {
        "layer_types": ["sliding_attention"] * 4 + ["full_attention"], "sliding_window": 2048,
    }  # fmt: skip
    draft = read(config).draft
    assert draft.causal is causal
    assert [(group.kind, group.count) for group in draft.layers] == [("full", 1), ("sliding", 4)]


def test_one_switch_makes_all_layers_slide():
    inner = {"mask_token_id": 5, "target_layer_ids": [1], "use_swa": True, "swa_window_size": 512}
    (layers,) = read(z_lab(dflash_config=inner)).draft.layers
    assert (layers.kind, layers.count, layers.window) == ("sliding", 5, 512)


@pytest.mark.parametrize(
    ("sizes", "published"),
    [
        (Sizes(6, 2048, 32, 8, 128, 6144, 8, 2048, 248320), 385906176),
        (Sizes(6, 4096, 32, 8, 128, 12288, 8, 4096, 248320), 1291904512),
        (Sizes(5, 3072, 32, 32, 128, 22016, 5, 3072, 200064), 1313379584),
        (Sizes(5, 5120, 32, 8, 128, 17408, 5, 5120, 248320, (2, 16), 256), 1924404480),
        (Sizes(5, 6656, 32, 8, 128, 19968, 5, 6656, 202048, (2, 16), 256), 2772159744),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else "",
)
def test_the_formula_gives_the_published_counts(sizes, published):
    assert parameter_count(sizes) == published


def test_files_say_better_than_formulas_how_large_a_draft_is():
    draft = read(z_lab(), stored=Stored(1 << 30, 500)).draft
    assert (draft.parameters, draft.gib) == (500, 1.0)


def test_a_quantized_draft_has_no_size_by_formula():
    settings = {
        "quant_method": "compressed-tensors", "format": "pack-quantized",
        "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int"}}},
    }  # fmt: skip
    draft = read(z_lab(quantization_config=settings), stored=Stored(1 << 30, 500)).draft
    assert (draft.quantization, draft.gib, draft.parameters) == ("int4", 1.0, 1048626432)
    assert read(z_lab(quantization_config=settings)).draft.gib is None


def test_a_mask_word_may_stand_for_its_number():
    inner = {"mask_token": "<|MASK|>", "target_layer_ids": [1]}
    assert read(z_lab(dflash_config=inner)).draft.mask_token_id is None


# --- refusals


def test_every_missing_field_is_named_at_once():
    error = refusal({"architectures": ["DFlashDraftModel"], "num_hidden_layers": 5})
    for name in ("block_size", "hidden_size", "intermediate_size", "num_attention_heads",
                 "mask_token_id", "target_layer_ids", "vocab_size"):  # fmt: skip
        assert error.message.count(name) == 1
    assert "#37475" in error.detail


def test_dflash_2_needs_its_modules_sizes():
    error = refusal(dflash2(conv_kernel_size=None, selector_rank=None))
    assert "lacks conv_kernel_size, selector_rank" in error.message


def test_groups_of_a_convolution_divide_its_width():
    error = refusal(dflash2(conv_group_size=1000))
    assert "conv_group_size is 1000, not a divisor of hidden_size, 5120" in error.message


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"block_size": 1}, "block_size is 1"),
        ({"hidden_size": "4096"}, "hidden_size is '4096'"),
        ({"num_hidden_layers": 10**9}, "1 to 4096"),
        ({"num_hidden_layers": True}, "num_hidden_layers is True"),
        ({"layer_types": ["full_attention"] * 4}, "5 entries"),
        ({"layer_types": ["linear_attention"] * 5}, "5 entries"),
        ({"is_causal": "yes"}, "true or false"),
        ({"layer_types": ["sliding_attention"] * 5}, "lacks sliding_window"),
        ({"dflash_config": {"mask_token_id": 5, "target_layer_ids": []}}, "target_layer_ids is []"),
        (
            {"dflash_config": {"mask_token_id": 5, "target_layer_ids": [1, 1]}},
            "target_layer_ids is [1, 1]",
        ),
        ({"dflash_config": {"mask_token_id": -1, "target_layer_ids": [1]}}, "mask_token_id is -1"),
        ({"dflash_config": "none"}, "lacks target_layer_ids"),
        ({"vocab_size": 151669}, "mask_token_id is 151669, not a whole number of 0 to 151668"),
        ({"vocab_size": 32000}, "mask_token_id is 151669"),
        ({"draft_vocab_size": 151937}, "draft_vocab_size is 151937"),
        ({"num_key_value_heads": 5}, "5, not a divisor of num_attention_heads, 32"),
    ],
)
def test_a_wrong_value_is_named_with_what_it_should_be(changes, said):
    assert said in refusal(z_lab(**changes)).message


def test_a_layer_before_the_first_is_none_of_the_targets():
    error = refusal(speculators(aux_hidden_state_layer_ids=[0, 9]))
    assert "aux_hidden_state_layer_ids is [0, 9]" in error.message


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (z_lab(architectures=["LlamaForCausalLM"]), "LlamaForCausalLM"),
        (z_lab(architectures=None), "architectures"),
        (z_lab(architectures=["\x1b[2J"]), "\\x1b[2J"),
        (speculators(speculators_model_type=["x"]), "['x']"),
        (speculators(speculators_model_type="eagle3"), "eagle3"),
        (z_lab(projector_type="dspark"), "dspark"),
        (speculators(sample_from_anchor=True), "anchor"),
    ],
)
def test_what_is_no_dflash_draft_is_called_what_it_is(config, said):
    assert said in refusal(config).message


def test_an_unknown_class_comes_with_the_known_ones():
    assert "DFlash2DraftModel, " in refusal(z_lab(architectures=["Other"])).message


# --- the pair


def of(target: str):
    return REGISTRY.entries[target].target


def test_a_draft_matches_its_own_target():
    assert mismatches(read(z_lab()), of("Qwen/Qwen3-8B")) == []
    assert mismatches(read(dflash2()), of("Qwen/Qwen3.8-27B")) == []
    assert mismatches(read(speculators()), of("google/gemma-4-31B-it")) == []


def test_every_reason_against_a_pair_is_given():
    inner = {"mask_token_id": 151936, "target_layer_ids": [1, 61]}
    draft = read(z_lab(hidden_size=5120, vocab_size=248320, num_target_layers=64,
                       dflash_config=inner))  # fmt: skip
    found = mismatches(draft, of("Qwen/Qwen3-8B"))
    for said in ("5120", "64 layers", "layer 61", "248320 tokens", "mask token 151936"):
        assert sum(said in reason for reason in found) == 1
    assert len(found) == 5


def test_a_larger_vocabulary_is_another_models():
    (found,) = mismatches(read(z_lab(vocab_size=248320)), of("Qwen/Qwen3-8B"))
    assert "248320" in found


def of_size(tokens: int, config: dict[str, Any], mask: int = 4) -> Any:
    """A draft that knows so many tokens, in either layout."""
    if "speculators_model_type" in config:
        config["transformer_layer_config"]["vocab_size"] = tokens
        return read(config | {"mask_token_id": mask, "draft_vocab_size": min(tokens, 32000)})
    config["dflash_config"]["mask_token_id"] = mask
    return read(config | {"vocab_size": tokens})


@pytest.mark.parametrize(
    ("config", "tokens", "target", "fits"),
    [
        (z_lab(), 151936, "Qwen/Qwen3-8B", True),
        (z_lab(), 151669, "Qwen/Qwen3-8B", True),  # without its padding
        (z_lab(), 128256, "Qwen/Qwen3-8B", False),  # Llama's
        (z_lab(), 150000, "Qwen/Qwen3-8B", False),
        (z_lab(), 5, "Qwen/Qwen3-8B", False),
        (dflash2(), 248320, "Qwen/Qwen3.8-27B", True),
        (dflash2(), 248319, "Qwen/Qwen3.8-27B", False),  # its tables end before the target's
        (speculators(), 262144, "google/gemma-4-31B-it", True),
        (speculators(), 200000, "google/gemma-4-31B-it", True),  # of which a table numbers 32000
        (speculators(), 32000, "google/gemma-4-31B-it", False),
        (speculators(), 262145, "google/gemma-4-31B-it", False),
    ],
)
def test_a_draft_knows_its_targets_tokens(config, tokens, target, fits):
    found = mismatches(of_size(tokens, config), of(target))
    assert (found == []) is fits
    assert fits or str(tokens) in found[0]


def test_tokens_that_it_lacks_are_said():
    (said,) = remarks(of_size(151669, z_lab()), of("Qwen/Qwen3-8B"))
    assert "151669 of the target's 151936" in said
    assert remarks(read(z_lab()), of("Qwen/Qwen3-8B")) == []


def test_the_published_pairs_know_each_others_tokens():
    for path in PUBLISHED:
        name = path.parent.relative_to(CONFIGS).as_posix()
        found = read_draft(json.loads(path.read_text()), name, CLASSES)
        target = REGISTRY.find(name).target
        assert mismatches(found, target) == remarks(found, target) == [], name


@pytest.mark.parametrize(
    ("changes", "own"),
    [
        ({}, False),
        ({"draft_vocab_size": 151936}, False),
        ({"draft_vocab_size": 32000}, True),
        ({"has_own_lm_head": True}, True),
    ],
)
def test_a_head_of_its_own_is_seen(changes, own):
    assert read(z_lab(**changes)).own_head is own


def test_nemotrons_mlps_are_layers_that_its_entry_does_not_list():
    target = of("Qwen/Qwen3-8B")
    layers = [msgspec.structs.replace(target.layers[0], count=6)]
    nemotron = msgspec.structs.replace(target, architecture="NemotronHForCausalLM", layers=layers)
    assert mismatches(read(z_lab()), nemotron) == []
    assert "6" in mismatches(read(z_lab()), nemotron, 6)[0]
