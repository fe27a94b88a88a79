"""What CUDA_VISIBLE_DEVICES leaves of a machine's cards, and in which order.

The rules are those of the CUDA programming guide (environment variables) and of the MIG user guide
(CUDA device enumeration):
- unset shows every card, an empty value none;
- a card is named by its index, by the beginning of its UUID, a slice by its MIG id; the first word
  settles which of the three the list speaks in;
- the list ends before the first word that names nothing, or nothing unambiguous;
- a card that is named twice empties the list;
- a process uses one MIG slice, and then no whole card.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

VARIABLE = "CUDA_VISIBLE_DEVICES"
ONE_SLICE = "a process uses one MIG slice, and then no other card"


class Unit(msgspec.Struct, frozen=True):
    """Something that CUDA can use: a whole card, or one slice of a card in MIG mode."""

    card: int
    """The card's place among those that can be read."""
    card_uuid: str
    mig_ids: tuple[str, ...] = ()
    """Of a slice: `MIG-<uuid>`, and `MIG-GPU-<uuid>/<instance>/<compute instance>`."""


class Selection(msgspec.Struct, frozen=True):
    """Indices into the units."""

    chosen: tuple[int, ...]
    reasons: dict[int, str]
    """Why a unit is hidden."""
    note: str | None = None


def select(value: str | None, units: Sequence[Unit]) -> Selection:
    """`value` as the environment has it, None where it is unset."""
    note = None
    chosen = list(range(len(units)))
    if value is not None and units:
        chosen, note = _listed(value, units)
    reasons = {
        index: f"{VARIABLE}={value} leaves it out"
        for index in range(len(units))
        if index not in chosen
    }
    slices = [index for index in chosen if units[index].mig_ids]
    if slices:
        reasons |= dict.fromkeys([index for index in chosen if index != slices[0]], ONE_SLICE)
        chosen = slices[:1]
    return Selection(tuple(chosen), reasons, note)


def _listed(value: str, units: Sequence[Unit]) -> tuple[list[int], str | None]:
    if not value.strip():
        return [], f"{VARIABLE} is empty: CUDA sees no card"
    chosen: list[int] = []
    words = [word.strip() for word in value.split(",")]
    for word in words:
        found = list(_named(word, units)) if _kind(word) == _kind(words[0]) else []
        if len(found) != 1:
            what = "fits several cards" if found else "names no card here"
            return chosen, f"{VARIABLE}={value}: `{word}` {what}, and CUDA ends the list there"
        if found[0] in chosen:
            return [], f"{VARIABLE}={value} names a card twice: CUDA sees none"
        chosen += found
    return chosen, None


def _kind(word: str) -> str:
    return "MIG" if word.startswith("MIG-") else "UUID" if word.startswith("GPU-") else "index"


def _named(word: str, units: Sequence[Unit]) -> Iterator[int]:
    """A card in MIG mode stands for its first slice."""
    if word.startswith("MIG-"):
        for index, unit in enumerate(units):
            if unit.mig_ids and (unit.mig_ids[0].startswith(word) or word in unit.mig_ids):
                yield index
        return
    number = re.match(r"\+?\d+", word, re.ASCII)  # CUDA reads `1x` as 1
    seen = set()
    for index, unit in enumerate(units):
        by_uuid = word.startswith("GPU-") and unit.card_uuid.startswith(word)
        by_index = number is not None and unit.card == int(number.group()[:9])
        if (by_uuid or by_index) and unit.card not in seen:
            seen.add(unit.card)
            yield index
