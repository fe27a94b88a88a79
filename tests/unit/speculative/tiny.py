"""Random models small enough to run thousands of times, built the way published ones are stored."""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from dflash_deploy.speculative.config import parse_config
from dflash_deploy.speculative.model import DraftModel, expected_shapes
from dflash_deploy.speculative.model2 import DraftModel2, expected_shapes2

HIDDEN, LAYERS = 32, 5
FAMILIES = {
    "llama": (LlamaConfig, LlamaForCausalLM),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
    "gemma2": (Gemma2Config, Gemma2ForCausalLM),
}
REFINEMENT = {"conv_kernel_size": 2, "conv_group_size": 8, "selector_rank": 6, "selector_top_k": 4}


def target_model(family="llama", vocab=40, seed=0, **settings):
    config_class, model_class = FAMILIES[family]
    config = config_class(
        **{
            "vocab_size": vocab,
            "hidden_size": HIDDEN,
            "intermediate_size": 48,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 8,
            "max_position_embeddings": 256,
            "bos_token_id": None,
            "eos_token_id": None,
            "pad_token_id": None,
            **settings,
        }
    )
    torch.manual_seed(seed)
    model = model_class(config).eval()
    spread(model)
    return model


def spread(model):
    """Weights large enough that rounding does not decide what the best token is."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.25)
            else:
                parameter.uniform_(0.5, 1.5)


def draft_json(vocab=40, *, second=False, dflash=None, **settings):
    """The contents of a draft's config.json."""
    return {
        "architectures": ["DFlash2DraftModel" if second else "DFlashDraftModel"],
        "model_type": "qwen3",
        "hidden_size": HIDDEN,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "vocab_size": vocab,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "max_position_embeddings": 256,
        "block_size": 4,
        "num_target_layers": LAYERS,
        "layer_types": ["full_attention", "full_attention"],
        **settings,
        "dflash_config": {
            "mask_token_id": 3,
            "target_layer_ids": [1, 3],
            **(REFINEMENT if second else {}),
            **(dflash or {}),
        },
    }


def draft_tensors(raw, seed=1):
    config = parse_config(raw, "config.json")
    shapes = (expected_shapes2 if config.refinement else expected_shapes)(config)
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(shape, generator=generator) * 0.25 + (len(shape) == 1)
        for name, shape in shapes.items()
    }


def draft_model(raw=None, seed=1):
    raw = raw or draft_json()
    config = parse_config(raw, "config.json")
    return (DraftModel2 if config.refinement else DraftModel)(config, draft_tensors(raw, seed))


def save_draft(folder: Path, raw=None, seed=1):
    raw = raw or draft_json()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(raw))
    save_file(draft_tensors(raw, seed), folder / "model.safetensors")
    return folder


def generated(model, prompt, count):
    """What transformers.generate says, greedily."""
    ids = torch.tensor([prompt])
    out = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=count,
        do_sample=False,
        pad_token_id=0,
    )
    return out[0, len(prompt) :].tolist()


def tokens(steps):
    return [token for step in steps for token in step.tokens]
