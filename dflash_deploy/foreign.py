"""Words of an option's own that name another platform's kernels: plans are for CUDA cards. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from dflash_deploy.engine_schema import Foreign
from dflash_deploy.flag_tables import FlagTable, flag_table
from dflash_deploy.flag_values import Values
from dflash_deploy.schema import EngineName
from dflash_deploy.situation import Situation


def foreign(at: Situation) -> Iterator[tuple[Foreign, str, str]]:
    """Each with the option and the word; any text, as a name or a path, names no kernel."""
    table: FlagTable | None = None
    for option, words in at.settings.items():
        for word in words:
            for item in at.engine.foreign:
                if item.part not in word.lower() or not option.startswith("--"):
                    continue
                table = table or flag_table(cast(EngineName, at.engine.distribution), at.version)
                if table and _is_listed(table, option, word):
                    yield item, option, word


def _is_listed(table: FlagTable, option: str, word: str) -> bool:
    row = table.names().get(option)
    key = option.partition(".")[2]
    values: Values | None = row.key(key) if row and key else row
    listed = (values and values.choices) or []
    return word.lower() in (each.lower() for each in listed)
