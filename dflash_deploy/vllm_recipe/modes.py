"""What a recipe offers: its ways of speculating, and the arguments of its other features."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dflash_deploy.flag_tables import Given, parse
from dflash_deploy.json_options import together
from dflash_deploy.vllm_recipe.rest import Path, words

SPECULATION = ("--speculative-config", "-sc")


@dataclass(frozen=True)
class Mode:
    """One way of speculating that a recipe offers."""

    path: Path
    """Where in the recipe it stands."""
    config: dict[str, Any]
    """The speculative config, its keys with underscores."""
    args: tuple[str, ...]
    """The mode's other arguments."""


def dflash_modes(document: Any) -> Iterator[Mode]:
    """The modes of `features.spec_decoding` whose method is dflash; the default one first."""
    path: Path = ("features", "spec_decoding")
    feature = part(document, *path)
    modes = feature.get("modes")
    default = str(feature.get("default_mode"))
    named: dict[Path, Any] = {path: feature}
    if isinstance(modes, dict):
        named = {(*path, "modes", str(name)): mode for name, mode in modes.items()}
    for where in sorted(named, key=lambda each: each[-1] != default):
        mode = named[where]
        given = parse(None, words(mode.get("args")) if isinstance(mode, dict) else ())
        config = _config(given)
        model = str(config.get("model", "")).lower()
        # without a method vLLM goes by the draft's name
        if str(config.get("method", "dflash" if "dflash" in model else "")).lower() == "dflash":
            others = (item for item in given if not _speculates(item))
            yield Mode(where, config, tuple(flat(others)))


def features(document: Any) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """The arguments of what else a recipe offers."""
    for name, feature in part(document, "features").items():
        args = feature.get("args") if isinstance(feature, dict) else None
        if name != "spec_decoding" and isinstance(args, list):
            yield ("features", name, "args"), words(args)


def part(document: Any, *path: str) -> Mapping[str, Any]:
    for name in path:
        document = document.get(name) if isinstance(document, dict) else None
    return document if isinstance(document, dict) else {}


def _config(given: Iterable[Given]) -> dict[str, Any]:
    said = (replace(item, words=(" ".join(item.words),)) for item in given if _speculates(item))
    config = together(said)
    return {key.replace("-", "_"): value for key, value in config.items()}


def _speculates(item: Given) -> bool:
    """Also `--speculative-config.method dflash`."""
    return (item.flag or "").partition(".")[0].replace("_", "-") in SPECULATION


def flat(given: Iterable[Given]) -> Iterator[str]:
    for item in given:
        yield from ((item.flag, *item.words) if item.flag else item.words)
