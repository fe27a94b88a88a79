"""From a folder or a hub id to a target or a draft in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from dflash_deploy.errors import Unsupported
from dflash_deploy.speculative import decoder_target
from dflash_deploy.speculative.config import read_config
from dflash_deploy.speculative.hub_target import HubTarget
from dflash_deploy.speculative.model import DraftModel, expected_shapes
from dflash_deploy.speculative.model2 import DraftModel2, expected_shapes2
from dflash_deploy.speculative.snapshot import refusal, snapshot
from dflash_deploy.speculative.target import Target
from dflash_deploy.speculative.weights import check_tensors, read_tensors

Dtype = str | torch.dtype
INT8 = "int8"


def load_draft(
    path_or_hub_id: str | Path,
    *,
    revision: str | None = None,
    dtype: Dtype = "auto",
    device: str | torch.device = "cpu",
    device_map: str | torch.device | None = None,
) -> DraftModel:
    """Read a published DFlash draft; runs no code from its repository.

    `dtype` "auto" keeps the checkpoint's; a decoder works on a copy in the target's.
    `device_map` is the name transformers has for `device`.
    Raises DownloadError for files that cannot be fetched, are missing or are damaged,
    Unsupported for what is no such draft.
    """
    folder = snapshot(path_or_hub_id, revision)
    config = read_config(folder / "config.json")
    tensors = read_tensors(folder)
    second = config.refinement is not None
    shapes = expected_shapes2(config) if second else expected_shapes(config)
    check_tensors(tensors, shapes, str(folder))
    wanted = None if dtype == "auto" else _dtype("float32" if dtype == INT8 else dtype)
    where = torch.device(device if device_map is None else device_map)
    tensors = {name: tensor.to(where, wanted) for name, tensor in tensors.items()}
    model = DraftModel2 if second else DraftModel
    return model(config, tensors).eval()


def load_target(
    path_or_hub_id: str | Path,
    *,
    revision: str | None = None,
    dtype: Dtype = "auto",
    device: str | torch.device = "cpu",
    trust_remote_code: bool = False,
) -> Target:
    """Read a causal language model.

    `dtype` "int8" rounds its weights and computes in 8 bits: on a CPU, and for the families that
    have a forward pass here.
    Raises DownloadError if its files cannot be fetched, are missing or are damaged, Unsupported
    for a dtype that it cannot be computed in.
    """
    target = as_target(
        load_model(
            path_or_hub_id,
            revision=revision,
            dtype="float32" if dtype == INT8 else dtype,
            device=device,
            trust_remote_code=trust_remote_code,
        )
    )
    if dtype == INT8:
        if not isinstance(target, decoder_target.DecoderTarget):
            raise Unsupported(
                f"{path_or_hub_id} is run by transformers, which has no int8 here",
                hint="--dtype float32",
            )
        target.round()
    return target


def load_model(
    path_or_hub_id: str | Path,
    *,
    revision: str | None = None,
    dtype: Dtype = "auto",
    device: str | torch.device = "cpu",
    trust_remote_code: bool = False,
) -> Any:
    """The same as transformers' own model, which a draft is trained on."""
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM

    try:
        model = AutoModelForCausalLM.from_pretrained(
            path_or_hub_id,
            revision=revision,
            dtype=dtype if dtype == "auto" else _dtype(dtype),
            trust_remote_code=trust_remote_code,
        )
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        failed = f"the target {path_or_hub_id} could not be loaded"
        raise refusal(str(path_or_hub_id), revision, error, failed) from error
    return model.to(device).eval()


def load_config(
    path_or_hub_id: str | Path, revision: str | None = None, *, trust_remote_code: bool = False
) -> Any:
    """Its transformers config alone, before anybody waits for the weights."""
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(
            path_or_hub_id, revision=revision, trust_remote_code=trust_remote_code
        )
    except (OSError, ValueError) as error:
        failed = f"the target {path_or_hub_id} could not be loaded"
        raise refusal(str(path_or_hub_id), revision, error, failed) from error


def as_target(model: Any) -> Target:
    """Our own forward pass where it computes the same, transformers' everywhere else."""
    if isinstance(model, (decoder_target.DecoderTarget, HubTarget)):
        return model
    with torch.inference_mode():
        return (
            decoder_target.DecoderTarget(model) if decoder_target.fits(model) else HubTarget(model)
        )


def _dtype(name: Dtype) -> torch.dtype:
    found = getattr(torch, name, None) if isinstance(name, str) else name
    if not isinstance(found, torch.dtype):
        raise Unsupported(f"{name!r} is not a dtype of torch")
    return found
