"""The pair that `peer_engines.py` runs: real weights, or a configuration's shape full of noise.

Noise has the cost of weights and not their sense: its drafts are refused, so that a cycle's time
can be measured and acceptance cannot. Every process makes the same noise.
"""

import gc
import json
import pathlib

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, Qwen3Config


def hub_target(options):
    """transformers' own model."""
    if not options.noise:
        model = AutoModelForCausalLM.from_pretrained(options.target, dtype=options.dtype)
        return model.eval().to(options.device)
    torch.manual_seed(0)
    config = AutoConfig.from_pretrained(options.target)
    with torch.device(options.device):
        return AutoModelForCausalLM.from_config(config, dtype=_dtype(options)).eval()


def our_target(options):
    from dflash_deploy.speculative.load import as_target, load_target

    if not options.noise:
        return load_target(options.target, dtype=options.dtype, device=options.device)
    target = as_target(hub_target(options))
    gc.collect()
    if options.device != "cpu":
        torch.cuda.empty_cache()  # the unfused weights, on a card that others share
    return target


def our_draft(options):
    from dflash_deploy.speculative.config import parse_config
    from dflash_deploy.speculative.load import load_draft
    from dflash_deploy.speculative.model import DraftModel, expected_shapes

    if not options.noise:
        return load_draft(options.draft, device=options.device)
    torch.manual_seed(1)
    config = parse_config(_config(options.draft), options.draft)
    with torch.device(options.device):
        tensors = {
            name: torch.ones(shape) if len(shape) == 1 else torch.randn(shape) * 0.02
            for name, shape in expected_shapes(config).items()
        }
    return DraftModel(config, {name: t.to(_dtype(options)) for name, t in tensors.items()})


def z_lab_draft(options, kind):
    """`kind` is the package's DFlashDraftModel."""
    if not options.noise:
        draft = kind.from_pretrained(options.draft, dtype=options.dtype, attn_implementation="sdpa")
        return draft.eval().to(options.device)
    torch.manual_seed(1)
    config = Qwen3Config(**_config(options.draft), attn_implementation="sdpa")
    with torch.device(options.device):
        return kind(config).to(_dtype(options)).eval()


def stop_token(options):
    """The target's end of answer; noise has none, and answers as long as asked."""
    return None if options.noise else AutoTokenizer.from_pretrained(options.target).eos_token_id


def _config(folder):
    return json.loads(pathlib.Path(folder, "config.json").read_text())


def _dtype(options):
    return getattr(torch, options.dtype)
