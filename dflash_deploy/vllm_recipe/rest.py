"""What of a recipe of vllm-project/recipes an entry has no place for, part by part. Pure.

Words for readers are not among it, nor what their site offers to choose from; nor what the entry of
a target knows by itself: how large it is, what it reads, which card holds it.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

Path = tuple[str, ...]
READ = {
    "meta", "guide", "title", "label", "description", "note", "opt_in_features", "default_mode",
    "compatible_strategies", "default_strategy", "precision", "precision_hardware",
    "vram_minimum_gb", "architecture", "parameter_count", "active_parameters", "context_length",
}  # fmt: skip
_VARIABLE = "no entry sets variables: export it, and an engine started here has it"
_INSTALLED = "how an engine is installed is no part of an entry"
_CARDS = "what is for one kind of card or one way of sharing cards is left to the plan"
_WEIGHTS = "the entry's own weights are served, and what goes with others is not read"
WHY = {
    "hardware": _CARDS, "hardware_overrides": _CARDS, "strategy_overrides": _CARDS,
    "strategy_hardware": _CARDS, "strategy_min_gpus": _CARDS, "variants": _WEIGHTS,
    "base_env": _VARIABLE, "extra_env": _VARIABLE, "env": _VARIABLE,
    "docker_image": _INSTALLED, "install": _INSTALLED, "nightly_required": _INSTALLED,
    "dependencies": _INSTALLED,
    "modes": "of each draft one DFlash mode is taken over, by its arguments",
    "features": "what comes with a feature beside its arguments is not read",
}  # fmt: skip
"""By a part's name, what says most first: of nested parts that one counts."""
NO_PLACE = "an entry has no place for it"
_DEEPEST = 12
"""Parts within parts; the deepest published one has seven."""


@dataclass(frozen=True)
class LeftOut:
    """One thing that a recipe says and its overlay does not."""

    name: str
    """An option, or where in the recipe it stands."""
    value: str
    why: str

    def __str__(self) -> str:
        return f"{self.name} {self.value}".strip() + f": {self.why}"


def rest(document: Any, done: Collection[Path]) -> Iterator[LeftOut]:
    """Whatever says something, has not been taken apart (`done`), and is not for readers alone."""
    for path, value in _leaves(document, (), done):
        parts = path[2:] if path[:2] == ("variants", "default") else path
        yield LeftOut(".".join(path), value, next((WHY[n] for n in WHY if n in parts), NO_PLACE))


def _leaves(value: Any, path: Path, done: Collection[Path]) -> Iterator[tuple[Path, str]]:
    if path in done or (path and path[-1] in READ) or value in (None, "", [], {}):
        return
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        value = dict(enumerate(value))
    if isinstance(value, dict) and len(path) < _DEEPEST:
        for key, inner in value.items():
            yield from _leaves(inner, (*path, str(key)), done)
    else:
        yield path, shlex.join(words(value)) if isinstance(value, list) else word(value)


def words(value: Any) -> tuple[str, ...]:
    """The arguments of a list, as a shell would hand them on."""
    return tuple(word(item) for item in value) if isinstance(value, list) else ()


def word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
