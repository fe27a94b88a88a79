"""Prompts without end from a few pages of data: rules whose alternatives name other rules."""

from __future__ import annotations

import random
import re

import msgspec

PLACE = re.compile(r"\{([a-z_]+)(?:\*(\d+))?\}|\{(\d+)\.\.(\d+)\}")
OPEN, CLOSE = "\x02", "\x03"
"""Stand for a brace of the text itself, which is written twice."""
TRIES = 20
"""Draws of the same prompt in a row, after which a kind has no more of them."""


class Grammar(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`kinds`: the rules that are prompts, with how often each is drawn."""

    kinds: dict[str, int]
    rules: dict[str, list[str]]

    def __post_init__(self) -> None:
        named = {
            found[1]
            for alternatives in self.rules.values()
            for alternative in alternatives
            for found in PLACE.finditer(_hidden(alternative))
            if found[1]
        }
        if unknown := sorted((named | self.kinds.keys()) - self.rules.keys()):
            raise ValueError(f"no rule {', '.join(unknown)}")

    def prompts(self, count: int, seed: int) -> list[tuple[str, str]]:
        """`count` different prompts, each with its kind; fewer if there are no more of them."""
        chance = random.Random(seed)  # noqa: S311
        names, often = list(self.kinds), list(self.kinds.values())
        found: dict[str, str] = {}
        missed = 0
        while len(found) < count and missed < TRIES * len(names):
            [kind] = chance.choices(names, often)
            text = self.expanded(f"{{{kind}}}", chance).strip()
            missed = missed + 1 if text in found else 0
            found.setdefault(text, kind)
        return [(kind, text) for text, kind in found.items()]

    def expanded(self, text: str, chance: random.Random) -> str:
        return self._filled(_hidden(text), chance).replace(OPEN, "{").replace(CLOSE, "}")

    def _filled(self, text: str, chance: random.Random) -> str:
        def fill(place: re.Match[str]) -> str:
            name, times, low, high = place.groups()
            if name is None:
                return str(chance.randint(int(low), int(high)))
            parts = [self._one(name, chance) for _ in range(int(times or 1))]
            # alternatives that are lines end themselves
            return "".join(parts) if parts[0].endswith("\n") else " ".join(parts)

        return PLACE.sub(fill, text)

    def _one(self, name: str, chance: random.Random) -> str:
        return self._filled(_hidden(chance.choice(self.rules[name])), chance)


def _hidden(text: str) -> str:
    return text.replace("{{", OPEN).replace("}}", CLOSE)
