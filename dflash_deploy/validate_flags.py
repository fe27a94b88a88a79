"""Whether flags of entries from elsewhere are allowed, and known to the engines. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

from packaging.version import Version

from dflash_deploy.engine_schema import Engine
from dflash_deploy.flag_faults import Fault
from dflash_deploy.flag_tables import Flag, flag_table, tables
from dflash_deploy.flag_values import takes_word
from dflash_deploy.registry import Entry

_WORD = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)


def check_flags(entry: Entry, engines: Mapping[str, Engine]) -> Iterator[tuple[str, str]]:
    """Flags of entries that did not ship with this package pass each engine's allow-list."""
    foreign = [layer for layer in entry.chain if layer.layer != "shipped"]
    for recipe in (recipe for layer in foreign for recipe in layer.own_recipes):
        meant = {name: e for name, e in engines.items() if recipe.when.engine in (None, name)}
        for flag in recipe.flags:
            wrong = _wrong(flag, meant)
            if wrong:
                yield f"recipe `{recipe.name}`", wrong


def _wrong(flag: str, engines: Mapping[str, Engine]) -> str | None:
    name, equals, value = flag.partition("=")
    if not all(name in engine.allowed_flags for engine in engines.values()):
        return f"`{name}` is not among the flags an overlay may set"
    if not equals:
        wants = any(_wants_a_word(name, *one) for one in engines.items())
        return f"`{name}` needs a value: `{name}=...`" if wants else None
    if not _WORD.fullmatch(value):
        return f"`{name}` takes a plain word, not `{value}`"
    for engine in engines:
        known = _rows(engine, name)
        if known and not any(takes_word(row, value) for row in known):
            return f"`{value}` is no {name} of any release of {engine}{_wanted(known[-1], value)}"
    return None


def _wants_a_word(name: str, engine_name: str, engine: Engine) -> bool:
    table = flag_table(engine_name, Version(engine.releases[-1].version))
    row = table.names().get(name) if table else None
    return row is not None and row.takes in ("one", "many")


def _wanted(row: Flag, value: str) -> str:
    wrong = Fault(row.name, value, row)
    return f": {wrong.says}" if row.kind else f": {wrong.hint}"


@cache
def _rows(engine: str, name: str) -> tuple[Flag, ...]:
    """The flag as each release has it, oldest first."""
    return tuple(row for table in tables(engine) for row in table.flags if row.name == name)
