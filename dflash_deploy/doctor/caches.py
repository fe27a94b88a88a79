"""What engines compile and keep: a first start takes minutes, and every start does without them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from dflash_deploy.doctor.finding import Finding, plain
from dflash_deploy.hub import disk

LONGEST = 2.0
"""Seconds spent on adding sizes up: a cache may be on a slow disk."""


class Place(msgspec.Struct, frozen=True):
    """A cache, the variable that moves it, and where it is when nobody does.

    Variables and folders are those of vLLM's envs.py, SGLang's environ.py, torch's
    cache_dir_utils.py, Triton's knobs.py, FlashInfer's jit/env.py and CUDA's programming guide.
    """

    name: str
    variable: str
    below: str
    """The folder inside what the variable names."""
    default: str
    """`{cache}` is XDG_CACHE_HOME, `{home}` the user's folder, `{tmp}` the temporary one."""


PLACES = (
    Place("vLLM", "VLLM_CACHE_ROOT", "", "{cache}/vllm"),
    Place("FlashInfer", "FLASHINFER_WORKSPACE_BASE", ".cache/flashinfer",
          "{home}/.cache/flashinfer"),
    Place("Triton", "TRITON_CACHE_DIR", "", "{home}/.triton/cache"),
    Place("torch", "TORCHINDUCTOR_CACHE_DIR", "", "{tmp}/torchinductor_{user}"),
    Place("SGLang", "SGLANG_CACHE_DIR", "", "{home}/.cache/sglang"),
    Place("DeepGEMM", "SGLANG_DG_CACHE_DIR", "", "{home}/.cache/deep_gemm"),
    Place("CUDA", "CUDA_CACHE_PATH", "", "{home}/.nv/ComputeCache"),
)  # fmt: skip


class Cache(msgspec.Struct, frozen=True):
    name: str
    variable: str
    folder: str
    size: int | None
    """Bytes; None: it is not there yet."""
    writable: bool
    whole: bool = True
    """Whether there was time to add everything up."""


def read(environment: Mapping[str, str], home: Path) -> tuple[Cache, ...]:
    until = time.monotonic() + LONGEST
    return tuple(_look(place, where(place, environment, home), until) for place in PLACES)


def where(place: Place, environment: Mapping[str, str], home: Path) -> Path:
    """Pure: an empty variable counts as none, as it does for the engines."""
    if own := environment.get(place.variable):
        return Path(own).expanduser() / place.below
    told = {
        "cache": environment.get("XDG_CACHE_HOME") or str(home / ".cache"), "home": str(home),
        "tmp": environment.get("TMPDIR") or "/tmp",  # noqa: S108  # where torch looks as well
        "user": environment.get("USER") or home.name,
    }  # fmt: skip
    return Path(place.default.format(**told))


def _look(place: Place, folder: Path, until: float) -> Cache:
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    writable = there.is_dir() and os.access(there, os.W_OK | os.X_OK)
    size, whole = _size(folder, until) if folder.is_dir() else (None, True)
    return Cache(place.name, place.variable, str(folder), size, writable, whole)


def _size(folder: Path, until: float) -> tuple[int, bool]:
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(root, name)).st_size  # noqa: PTH118  # many of them
            except OSError:
                continue  # an engine at work
        if time.monotonic() > until:
            return total, False
    return total, True


def findings(caches: Sequence[Cache]) -> Iterator[Finding]:
    filled = [cache for cache in caches if cache.size]
    sizes = ", ".join(f"{cache.name} {_told(cache)}" for cache in filled)
    if all(cache.writable for cache in caches):
        cold = "nothing compiled yet: an engine's first start takes minutes longer"
        yield Finding("caches", "ok", f"compiled so far: {sizes}" if sizes else cold)
        return
    if sizes:
        yield Finding("caches", "ok", f"compiled so far: {sizes}")
    for cache in caches:
        if not cache.writable:
            text = plain(f"{cache.name} cannot keep what it compiles in {cache.folder}")
            yield Finding("caches", "note", text, f"export {cache.variable}=/a/folder/of/yours")


def _told(cache: Cache) -> str:
    return f"{'' if cache.whole else 'over '}{disk.size(cache.size or 0)}"
