"""A checkpoint's tensors, all there and in shape, or an error that names file and tensor."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from torch import Tensor

from dflash_deploy.errors import DownloadError, Unsupported

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
AGAIN = "fetch the weights again: `hf download ORG/NAME`"


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """Read one safetensors file, or all that the index lists."""
    if not (folder / INDEX).exists():
        return _read_file(folder / SINGLE)
    try:
        listed = json.loads((folder / INDEX).read_bytes())["weight_map"]
        files = sorted(set(listed.values()))
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise DownloadError(f"{folder / INDEX} is damaged: {error!r}") from error
    tensors: dict[str, Tensor] = {}
    for file in files:
        if Path(file).name != file:
            raise DownloadError(f"{folder / INDEX} names a file outside its folder: {file}")
        tensors |= _read_file(folder / file)
    for name, file in listed.items():
        if name not in tensors:
            raise DownloadError(f"{folder / file} lacks the tensor {name}")
    return tensors


def _read_file(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not path.exists():
        raise DownloadError(f"{path} is missing", hint=AGAIN)
    try:
        return load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise DownloadError(
            f"{path} is damaged or incomplete", detail=str(error), hint=f"rm {path}, then {AGAIN}"
        ) from error


def check_tensors(
    tensors: Mapping[str, Tensor], expected: Mapping[str, Sequence[int]], where: str
) -> None:
    """Compare names and shapes both ways. Raises Unsupported for the first that differs."""
    for name, shape in expected.items():
        if name not in tensors:
            raise Unsupported(f"{where} lacks the tensor {name}")
        found = tuple(tensors[name].shape)
        if found != tuple(shape):
            raise Unsupported(f"{where}: {name} has shape {found}; its config says {tuple(shape)}")
    for name in tensors:
        if name not in expected:
            raise Unsupported(f"{where} has an unexpected tensor {name}; its config names none")
