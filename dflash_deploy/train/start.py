"""A draft that training goes on with, where it does not begin with fresh weights."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from dflash_deploy.errors import Unsupported
from dflash_deploy.speculative.config import DraftConfig, read_config
from dflash_deploy.speculative.model import expected_shapes
from dflash_deploy.speculative.model2 import expected_shapes2
from dflash_deploy.speculative.weights import check_tensors, read_tensors


def shape(folder: Path) -> DraftConfig:
    """What the draft in a folder is. Raises Unsupported for what is not trained here."""
    config = read_config(folder / "config.json")
    for what, there in (
        ("sliding windows", any(config.windows)),
        ("causal layers", any(config.causal)),
        ("a scaled embedding", config.embedding_scale != 1),
        ("scaled logits", config.output_multiplier != 1 or config.logit_softcap is not None),
    ):
        if there:
            raise Unsupported(
                f"{folder} has {what}, which is not trained here", hint="leave --start out"
            )
    return config


def tensors(folder: Path, config: DraftConfig, scales: Tensor) -> dict[str, Tensor]:
    """Its weights as they are trained, on the device of `scales` [taps], the features' divisors.

    Raises DownloadError for a file that is missing or damaged, Unsupported for one that is not what
    its config says.
    """
    read = read_tensors(folder)
    shapes = expected_shapes2(config) if config.refinement else expected_shapes(config)
    check_tensors(read, shapes, str(folder))
    found = {name: tensor.to(scales.device, scales.dtype) for name, tensor in read.items()}
    # the file's has the divisors in it: `save`
    found["fc.weight"] *= scales.repeat_interleave(config.hidden_size)
    return found
