"""What rules look at: one server to be started, in the registry's words. Pure.

It is made from a resolution, or read off somebody's command line; the rules cannot tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from packaging.version import Version

from dflash_deploy.engine_schema import Engine
from dflash_deploy.flag_tables import flag_table, parse
from dflash_deploy.schema import Architecture, Draft, EngineName, KvDtype, Target, Thinking


@dataclass(frozen=True, kw_only=True)
class Situation:
    """None: not known, and no rule about it holds."""

    engine: Engine
    version: Version
    target: Target | None
    draft: Draft | None
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

    def number(self, setting: str) -> int | None:
        words = self.settings.get(setting, ())
        return int(words[0]) if len(words) == 1 and words[0].isdecimal() else None


def settings_of(
    name: EngineName, engine: Engine, version: Version, argv: Iterable[str]
) -> dict[str, tuple[str, ...]]:
    """Flags of a command by meaning; a flag without one stays what it is. The last one wins."""
    meanings = {spelling.flag: spelling.setting for spelling in engine.spellings}
    given = parse(flag_table(name, version), argv)
    return {meanings.get(item.flag, item.flag): item.words for item in given if item.flag}
