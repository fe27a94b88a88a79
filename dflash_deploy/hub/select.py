"""Which files of a repository an engine reads. Pure: names in, names out.

Repositories carry the same weights several times: gpt-oss once more under `original/` and
`metal/`, Llama under `original/`, Mistral as `consolidated*`, many as pickles beside the
safetensors. An engine reads one set: that of the index, if there is one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase
from typing import Literal

INDEX = "model.safetensors.index.json"
PICKLE_INDEX = "pytorch_model.bin.index.json"
SMALL = ("*.json", "*.jinja", "*.txt", "*.model", "*.tiktoken", "LICENSE*", "LICENCE*", "NOTICE*")
NESTED = ("additional_chat_templates/*.jinja",)
SECOND_COPY = ("consolidated*", "pytorch_model*", "*.onnx*", "adapter_*")


def select(
    names: Iterable[str], form: Literal["safetensors", "gguf"], *, code: bool
) -> tuple[list[str], str | None]:
    """The files to have, and the index among them that says which weights; None: no index.

    Where there is an index the weights are left out: `indexed` adds those that it names.
    """
    known = set(names)
    if form == "gguf":
        return sorted(name for name in known if name.endswith(".gguf") or _small(name)), None
    index, weights = _weights(known)
    kept = {name for name in known if _small(name) or name in weights or name == index}
    kept |= {name for name in known if code and name.endswith(".py")}
    return sorted(kept), index


def _small(name: str) -> bool:
    if "/" in name:
        return _any(name, NESTED)
    return _any(name, SMALL) and not name.endswith(".index.json") and not _any(name, SECOND_COPY)


def _weights(known: Collection[str]) -> tuple[str | None, set[str]]:
    """Safetensors by the index; else all there are; pickles only where nothing better is."""
    if INDEX in known:
        return INDEX, set()
    top = {name for name in known if "/" not in name}
    tensors = {name for name in top if name.endswith(".safetensors")}
    plain = {name for name in tensors if not _any(name, SECOND_COPY)}
    if tensors:
        return None, plain or tensors
    if PICKLE_INDEX in known:
        return PICKLE_INDEX, set()
    return None, {name for name in top if fnmatchcase(name, "pytorch_model*.bin")}


def is_weights(name: str) -> bool:
    return name.endswith((".safetensors", ".bin", ".gguf"))


def _any(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
