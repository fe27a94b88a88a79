"""What rules look at: one server to be started, in the registry's words. Pure.

It is made from a resolution, or read off somebody's command line; the rules cannot tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from packaging.version import Version

from dflash_deploy import json_options
from dflash_deploy.engine_schema import Engine
from dflash_deploy.flag_tables import Given, flag_table, json_object, parse
from dflash_deploy.reach import within
from dflash_deploy.schema import Architecture, Draft, EngineName, KvDtype, Target, Thinking

_COUNT = re.compile(r"(\d{1,18}(?:\.\d{1,6}(?=[kmgKMG]))?)([kmgKMG]?)")
_SCALES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}
_KV: dict[str, KvDtype] = {
    "fp8": "fp8", "fp8_e4m3": "fp8", "fp8_e5m2": "fp8", "bfloat16": "bf16", "bf16": "bf16",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Situation:
    """None: not known, and no rule about it holds."""

    engine: Engine
    version: Version
    target: Target | None
    draft: Draft | None
    weights: str | None = None
    """Which of the target's, by name; None for a folder of the user's own."""
    architecture: Architecture | None = None
    block_size: int | None = None
    concurrency: int | None = None
    context: int | None = None
    tensor_parallel: int = 1
    kv_dtype: KvDtype = "auto"
    thinking: Thinking | None = None
    """The mode that the server answers in unless a request says otherwise."""
    settings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What was said in so many words: by meaning where the registry knows one, else by flag."""

    @property
    def draft_kv_dtype(self) -> KvDtype:
        """What the draft keeps its cache in: the target's, unless something else was said."""
        own = self.settings.get("draft_kv_dtype")
        return self.kv_dtype if own is None else said_kv_dtype({"kv_dtype": own})

    def number(self, setting: str) -> int | None:
        words = self.settings.get(setting, ())
        return counted(words[0]) if len(words) == 1 else None


def counted(word: str) -> int | None:
    """A count as it is written; vLLM reads `32k` and `32K` too. None for anything else."""
    found = _COUNT.fullmatch(word)
    return int(float(found[1]) * _SCALES[found[2]]) if found else None


def settings_of(
    name: EngineName, engine: Engine, version: Version, argv: Iterable[str]
) -> dict[str, tuple[str, ...]]:
    """Flags of a command by meaning; a flag without one stays what it is."""
    return by_meaning(engine, parse(flag_table(name, version), argv))


def by_meaning(engine: Engine, given: Iterable[Given]) -> dict[str, tuple[str, ...]]:
    """The last word on a flag wins; flags of one meaning (SGLang's backends) stand together.

    Each key of a JSON object is a setting as well, after a dot, and may have a meaning of its own.
    """
    found: dict[str, tuple[str, ...]] = {}
    for flag, words in _last(given).items():
        meaning = engine.meanings.get(flag, flag)
        found[meaning] = (*found.get(meaning, ()), *words)
    return found


def flag_for(engine: Engine, name: str, version: Version) -> str | None:
    """The flag of a setting in this release; None where the release has none."""
    for spelling in engine.spellings:
        if spelling.setting != name:
            continue
        if within(spelling.versions, version):
            return spelling.flag
    return None


def first_to_have(engine: Engine, name: str, least: str) -> str:
    """The first known release from `least` on that has a flag for a setting, else `least`."""
    known = (release.version for release in engine.releases)
    later = (each for each in known if Version(each) >= Version(least))
    return next((each for each in later if flag_for(engine, name, Version(each))), least)


def meaning_of(engine: Engine, flag: str) -> str:
    """What the registry calls what a flag says; a flag without a meaning stays what it is."""
    return engine.meanings.get(flag, flag)


def _last(given: Iterable[Given]) -> dict[str, tuple[str, ...]]:
    """The words of each flag, and of each key of those that take a JSON object."""
    flags: dict[str, list[Given]] = {}
    for item in given:
        if item.flag:
            flags.setdefault(item.flag, []).append(item)
    found: dict[str, tuple[str, ...]] = {}
    for flag, items in flags.items():
        said = json_options.together(items)
        dotted = any(map(json_options.dotted_path, items))
        found[flag] = (json_options.text(said),) if dotted else items[-1].words
        found |= {f"{flag}.{key}": (json_options.text(value),) for key, value in said.items()}
    return found


def said_kv_dtype(settings: Mapping[str, tuple[str, ...]]) -> KvDtype:
    """An engine's name for a KV cache dtype in the registry's words."""
    return _KV.get(next(iter(settings.get("kv_dtype", ())), "auto").lower(), "auto")


def said_thinking(target: Target, settings: Mapping[str, tuple[str, ...]]) -> Thinking | None:
    """The mode of a server with these settings; None where the target has none."""
    modes = target.thinking
    if modes is None:
        return None
    said = json_object(next(iter(settings.get("template_defaults", ())), ""))
    value = said.get(modes.template_key or "")
    return modes.default if not isinstance(value, bool) else ("on" if value else "off")
