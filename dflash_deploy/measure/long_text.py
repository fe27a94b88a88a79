"""Prompts of some thousand tokens, made rather than stored: a seed gives the same text anywhere."""

from __future__ import annotations

import random
from collections.abc import Iterator

import msgspec

DAYS = (30, 40, 50, 60, 70, 80)
"""Entries of a log; a day takes about 75 tokens."""
SPAN = 12
"""Prompts there are."""


class Parts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the sentences of a log are put together from."""

    ships: list[str]
    cargoes: list[str]
    berths: list[str]
    weather: list[str]
    duties: list[str]
    evenings: list[str]


def long_prompts(parts: Parts) -> Iterator[tuple[str, str]]:
    """Question and answer, each about a log of its own: no two begin alike in a prefix cache."""
    for number in range(SPAN):
        yield _log(parts, random.Random(number), number + 1, DAYS[number % len(DAYS)])  # noqa: S311


def _log(parts: Parts, chance: random.Random, volume: int, days: int) -> tuple[str, str]:
    entries = [_entry(parts, chance, day) for day in range(1, days + 1)]
    asked = chance.randrange(days)
    text, tonnes = entries[asked]
    ship = text.split("the ", 1)[1].split(" ", 1)[0]
    question = (
        f"How many tonnes did the {ship} land on day {asked + 1}? Give the number first, then"
        " describe in two or three sentences what else happened on that day and the day after."
    )
    body = "\n\n".join(entry for entry, _ in entries)
    title = f"Volume {volume} of a harbour log, {days} days."
    return f"{title}\n\n{body}\n\n{question}", str(tonnes)


def _entry(parts: Parts, chance: random.Random, day: int) -> tuple[str, int]:
    """One day, and how much was landed on it."""
    tonnes = chance.randrange(20, 900)
    hour, minute = chance.randrange(5, 12), chance.randrange(0, 60, 5)
    text = (
        f"Day {day}. At {hour}:{minute:02} the {chance.choice(parts.ships)} made fast at the"
        f" {chance.choice(parts.berths)} and landed {tonnes} tonnes of"
        f" {chance.choice(parts.cargoes)}. {chance.choice(parts.weather)}."
        f" {chance.choice(parts.duties)}. {chance.choice(parts.evenings)}."
    )
    return text, tonnes
