"""What an engine's rules say of a pair before anybody asks for anything. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from packaging.version import Version

from dflash_deploy.engine_schema import Engine
from dflash_deploy.rules import Finding, findings
from dflash_deploy.schema import Architecture, Draft, Target
from dflash_deploy.situation import Situation


@dataclass(frozen=True)
class Limit:
    """One rule that speaks of a pair in the newest release, and on which cards."""

    finding: Finding
    cards: tuple[Architecture, ...]
    """Empty: on every card."""


def limits(engine: Engine, target: Target, draft: Draft) -> list[Limit]:
    """Warnings, settings that are added, and limits for clients, with the engine left to itself."""
    everywhere = _found(engine, target, draft, None)
    by_rule: dict[str, list[Architecture]] = {}
    only: dict[str, Finding] = {}
    for card in get_args(Architecture):
        for item in _found(engine, target, draft, card):
            if item not in everywhere:
                by_rule.setdefault(item.rule, []).append(card)
                only[item.rule] = item
    return [
        *(Limit(item, ()) for item in everywhere),
        *(Limit(item, tuple(by_rule[rule])) for rule, item in only.items()),
    ]  # fmt: skip


def _found(
    engine: Engine, target: Target, draft: Draft, card: Architecture | None
) -> list[Finding]:
    at = Situation(
        engine=engine, version=Version(engine.releases[-1].version), target=target, draft=draft,
        architecture=card, block_size=draft.block_size, concurrency=1, thinking=draft.thinking,
        settings={"concurrency": ("1",)},
    )  # fmt: skip
    return findings(at)
