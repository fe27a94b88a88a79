"""What an engine's rules say of a pair before anybody asks for anything. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from packaging.version import Version

from dflash_deploy.engine_schema import Engine
from dflash_deploy.rules import Finding, findings
from dflash_deploy.schema import Architecture, Draft, Target
from dflash_deploy.situation import Situation, flag_for

_ORDER = ("refuse", "warn", "fix", "note")


@dataclass(frozen=True)
class Limit:
    """One rule that speaks of a pair in the newest release, and on which cards."""

    finding: Finding
    cards: tuple[Architecture, ...]
    """Empty: on every card."""
    adds: tuple[str, ...] = ()
    """What a `fix` puts into the command, as this release spells it."""


def limits(engine: Engine, target: Target, draft: Draft) -> list[Limit]:
    """Warnings, settings that are added, and limits for clients, with the engine left to itself."""
    everywhere = _found(engine, target, draft, None)
    found = [Limit(item, (), _adds(engine, item)) for item in everywhere]
    on_cards: dict[str, tuple[Finding, list[Architecture]]] = {}
    for card in get_args(Architecture):
        for item in _found(engine, target, draft, card):
            if item not in everywhere:
                on_cards.setdefault(item.rule, (item, []))[1].append(card)
    found += [
        Limit(item, tuple(cards), _adds(engine, item)) for item, cards in on_cards.values()
    ]  # fmt: skip
    return sorted(found, key=lambda limit: _ORDER.index(limit.finding.severity))


def refusal(engine: Engine, target: Target, draft: Draft) -> Finding | None:
    """Why the newest release does not serve the pair; None where no rule forbids it."""
    found = _found(engine, target, draft, None)
    return next((item for item in found if item.severity == "refuse"), None)


def _adds(engine: Engine, item: Finding) -> tuple[str, ...]:
    newest = Version(engine.releases[-1].version)
    spelled = ((flag_for(engine, each.setting, newest), each.value) for each in item.set)
    return tuple(f"{flag} {value}" if value else flag for flag, value in spelled if flag)


def _found(
    engine: Engine, target: Target, draft: Draft, card: Architecture | None
) -> list[Finding]:
    """On the fewest cards that somebody documented, with one request: what no plan would change."""
    at = Situation(
        engine=engine, version=Version(engine.releases[-1].version), target=target, draft=draft,
        architecture=card, block_size=draft.block_size, concurrency=1, thinking=draft.thinking,
        tensor_parallel=target.minimum.tensor_parallel if target.minimum else 1,
        settings={"concurrency": ("1",)},
    )  # fmt: skip
    # what only goes into the environment limits nobody: a plan says it
    return [item for item in findings(at) if item.severity != "fix" or item.set]
