"""A draft in the layout that vLLM, SGLang and the embedded engine read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from dflash_deploy.speculative.config import DraftConfig
from dflash_deploy.speculative.target import shape_of
from dflash_deploy.train import files
from dflash_deploy.train.recipe import Recipe, taps


def config_json(target: Any, recipe: Recipe, mask_token_id: int) -> dict[str, Any]:
    """The draft's config.json: layers of the target's size, whatever family the target is of.

    `target` is its transformers config.
    """
    text = target.get_text_config()
    shape = shape_of(target)
    head_dim = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    rope = getattr(text, "rope_parameters", None) or {}
    second = recipe.selector_rank > 0
    return {
        "architectures": ["DFlash2DraftModel" if second else "DFlashDraftModel"],
        "model_type": "qwen3",
        "hidden_size": shape.hidden_size,
        "intermediate_size": getattr(text, "intermediate_size", None) or 4 * shape.hidden_size,
        "num_hidden_layers": recipe.layers,
        "num_attention_heads": text.num_attention_heads,
        "num_key_value_heads": text.num_key_value_heads,
        "head_dim": head_dim,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": float(rope.get("rope_theta") or 10000.0),
        "max_position_embeddings": shape.max_context,
        "vocab_size": shape.vocab_size,
        "tie_word_embeddings": True,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "torch_dtype": "bfloat16",
        "block_size": recipe.block_size,
        "num_target_layers": shape.layers,
        "layer_types": ["full_attention"] * recipe.layers,
        "dflash_config": {
            "mask_token_id": mask_token_id,
            "target_layer_ids": taps(shape.layers),
            **(_second(recipe) if second else {}),
        },
    }


def _second(recipe: Recipe) -> dict[str, Any]:
    """What DFlash 2 adds, in the sizes of the published drafts but for the selector's rank."""
    return {
        "block_size": recipe.block_size,
        "conv_kernel_size": 2,
        "conv_group_size": 16,
        "selector_rank": recipe.selector_rank,
        "selector_top_k": 16,
    }


def save(folder: Path, config: DraftConfig, tensors: Mapping[str, Tensor], scales: Tensor) -> None:
    """Write config.json and model.safetensors in bfloat16; the folder appears when both are whole.

    `scales` go into `fc.weight`: an engine hands the features over as they are.
    """
    import torch
    from safetensors.torch import save as as_bytes

    folded = dict(tensors)
    columns = scales.repeat_interleave(config.hidden_size)
    folded["fc.weight"] = tensors["fc.weight"] / columns
    rounded = {
        name: tensor.detach().to("cpu", torch.bfloat16).contiguous()
        for name, tensor in folded.items()
    }
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    text = json.dumps(config.raw, indent=1) + "\n"
    try:
        files.write_whole(part / "config.json", text.encode())
        # by hand: safetensors' own file is closed to other users, and its errors are no OSErrors
        files.write_whole(part / "model.safetensors", as_bytes(rounded, {"format": "pt"}))
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    part.replace(folder)
