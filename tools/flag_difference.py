"""What changed between two releases' flags, and which of it the registry speaks of. Pure."""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from packaging.version import Version

from dflash_deploy.flag_faults import fault
from dflash_deploy.flag_tables import Flag, FlagTable, parse
from dflash_deploy.flag_values import described
from dflash_deploy.reach import within
from dflash_deploy.registry import Registry
from dflash_deploy.schema import EngineName


@dataclass(frozen=True)
class Change:
    """One line of the difference: `flag` as the older release writes it, if it had it."""

    kind: Literal["added", "removed", "renamed", "changed", "respelled"]
    flag: str
    detail: str = ""


def difference(before: FlagTable, after: FlagTable) -> list[Change]:
    """Every flag that came, went, or is written or used otherwise than before."""
    old, new = before.names(), after.names()
    gone = [change for row in before.flags for change in _fate(row, after)]
    added = [
        Change("added", row.name, f"takes {row.takes}")
        for row in after.flags
        if not any(spelling in old for spelling in spellings(row))
    ]
    altered = [
        Change("changed", row.name, detail)
        for row in before.flags
        if (now := _same_flag(row, new)) and (detail := "; ".join(_alterations(row, now)))
    ]
    respelled = [
        Change("respelled", row.name, spelling)
        for row in before.flags
        if (now := _same_flag(row, new))
        for spelling in spellings(now)
        if spelling not in spellings(row)
    ]
    return [*gone, *altered, *added, *respelled]


def spellings(row: Flag) -> tuple[str, ...]:
    return (row.name, *row.aliases, *row.negatives)


def _same_flag(row: Flag, new: dict[str, Flag]) -> Flag | None:
    return next((new[spelling] for spelling in spellings(row) if spelling in new), None)


def _fate(row: Flag, after: FlagTable) -> Iterator[Change]:
    """What became of the spellings that the newer release does not know."""
    new = after.names()
    lost = [spelling for spelling in spellings(row) if spelling not in new]
    now = _same_flag(row, new)
    if now is None:
        yield Change("removed", row.name, _resembling(row, after))
    else:
        for spelling in lost:
            yield Change("renamed", spelling, f"is now {now.name}")


def _resembling(row: Flag, after: FlagTable) -> str:
    """A guess for a person to look at: parsers do not say what replaces a flag."""
    alike = [other.name for other in after.flags if other.takes == row.takes]
    close = difflib.get_close_matches(row.name, alike, n=1, cutoff=0.7)
    return f"perhaps {close[0]}" if close else ""


def _alterations(old: Flag, new: Flag) -> Iterator[str]:
    if old.takes != new.takes:
        yield f"takes {new.takes}, took {old.takes}"
    if old.choices != new.choices:
        before, after = set(old.choices or ()), set(new.choices or ())
        words = [*(f"+{word}" for word in sorted(after - before)),
                 *(f"-{word}" for word in sorted(before - after))]  # fmt: skip
        free = "no longer limited" if not after else "limited from now on" if not before else ""
        yield " ".join(word for word in ("choices", free, *words) if word)
    before_keys, after_keys = ({key.name: key for key in row.keys} for row in (old, new))
    if before_keys.keys() != after_keys.keys():
        came = [f"+{key}" for key in sorted(after_keys.keys() - before_keys)]
        went = [f"-{key}" for key in sorted(before_keys.keys() - after_keys)]
        yield " ".join(["keys", *came, *went])
    if (old.kind, *limits(old)) != (new.kind, *limits(new)):
        yield f"wants {described(new)}, wanted {described(old)}"


def limits(row: Flag) -> tuple[float | None, ...]:
    return (row.least, row.above, row.most, row.below)


def uses(registry: Registry, name: EngineName, version: Version) -> dict[str, list[str]]:
    """Where the registry speaks of a flag for this release."""
    engine, found = registry.engines[name], defaultdict[str, list[str]](list)
    spelt = {s.setting: s.flag for s in engine.spellings if within(s.versions, version)}
    for setting, flag in spelt.items():
        found[flag].append(f"setting {setting}")
    for rule in (rule for rule in engine.rules if within(rule.when.version, version)):
        for item in rule.when.settings:
            found[spelt.get(item.name, item.name)].append(f"rule {rule.id}")
    for flag in engine.allowed_flags:
        found[flag].append("allowed_flags")
    for entry in registry.entries.values():
        for recipe in entry.model.recipes:
            when = recipe.when
            if when.engine in (None, name) and within(when.version, version):
                for word in recipe.flags:
                    found[word.partition("=")[0]].append(f"recipe {recipe.name} of {entry.name}")
    return found


def is_known(option: str, known: dict[str, Flag]) -> bool:
    """Whether a table has an option; a key after a dot passes where nobody has read the keys."""
    row = known.get(option.partition(".")[0])
    return option in known or bool(row and "." in option and not row.keys)


def faults(table: FlagTable, argv: Iterable[str]) -> Iterator[str]:
    """What this release's parser would not take in a command line, its program left out."""
    seen_flag = False
    for given in parse(table, argv):
        if given.flag is None:
            if seen_flag:  # the target stands in front
                yield f"`{given.as_written}` belongs to no flag"
            continue
        seen_flag = True
        if given.row is None:
            several = f" (may mean {', '.join(given.candidates)})" if given.candidates else ""
            yield f"{given.flag} is unknown{several}"
            continue
        if (given.row.takes == "none" and given.words) or (
            given.row.takes in ("one", "many") and not given.words
        ):
            yield f"{given.flag} takes {given.row.takes}, is given {list(given.words)}"
        elif wrong := fault(given):
            yield f"{wrong.said}: {wrong.says}"
