"""What is in the cache already, judged without the hub: HF_HUB_OFFLINE, or no network at all."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from dflash_deploy.errors import DownloadError
from dflash_deploy.hub.cache import Cached
from dflash_deploy.hub.select import INDEX, is_weights, select
from dflash_deploy.hub.sources import Part
from dflash_deploy.hub.survey import weight_files
from dflash_deploy.hub.tensors import whole

TOKENIZERS = ("tokenizer.json", "*.model", "tekken.json", "*.tiktoken", "vocab.json", "*.gguf")


class Local(msgspec.Struct, frozen=True):
    """One repository as the cache has it."""

    part: Part
    commit: str | None
    folder: Path | None
    lacks: str | None
    """What is missing or cut short; None: an engine finds all it reads."""
    size: int = 0


def local(part: Part, cache: Path) -> Local:
    """Whether the snapshot that the revision stands for has everything, by names and lengths."""
    cached = Cached(cache, part.source.id)
    commit = cached.commit(part.source.revision)
    folder = cached.snapshot(commit) if commit else None
    if folder is None or not folder.is_dir():
        return Local(part, commit, None, "everything")
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    wanted, index = select(names, part.form, code=part.code)
    lacks = next(iter(lacking(part, folder, names, index)), None)
    if index:
        wanted = sorted({*wanted, *_indexed(folder, index)} & names)
    size = sum((folder / name).stat().st_size for name in wanted)
    return Local(part, commit, folder, lacks, size)


def lacking(part: Part, folder: Path, names: set[str], index: str | None) -> list[str]:
    """The files that an engine would look for in vain, or find cut short."""
    named = _indexed(folder, index) if index else set()
    if index and not named:
        return [index]
    weights = named or {name for name in names if is_weights(name) and "/" not in name}
    lost = sorted(weights - names) or ([] if weights else ["the weights"])
    lost += [
        name for name in sorted(weights & names)
        if name.endswith(".safetensors") and not whole(folder / name)
    ]  # fmt: skip
    if "config.json" not in names and part.form != "gguf":
        lost.append("config.json")
    known = any(fnmatchcase(name, pattern) for name in names for pattern in TOKENIZERS)
    if part.role == "target" and not known:
        lost.append("the tokenizer")
    if not index and any(name.startswith("model-0") for name in weights):
        lost.append(INDEX)  # shards, and nobody says how many
    return lost


def _indexed(folder: Path, index: str) -> set[str]:
    try:
        return weight_files((folder / index).read_bytes(), index)
    except (OSError, DownloadError):
        return set()
