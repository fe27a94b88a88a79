"""A command that this project refuses, and how the same words are put to the engine."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from dflash_deploy.hardware import parse as cards
from dflash_deploy.plan import Plan, make_plan
from dflash_deploy.registry import Registry
from dflash_deploy.request import Request
from tests.contract.engine_cases import COUNT, REGISTRY, RELEASES, Release, as_case

DRAFT = "draft_attention_backend"


@dataclass(frozen=True)
class Refused:
    """A command line that this project refuses and the engine rejects, and the words of both.

    `extra` goes behind the plan's own words, `recipe` changes what the entry's recipe says,
    `config` the speculative config, and `without` takes flags out; `asks` says to this project
    what `extra` says to the engine. Where `rule` is None no plan says it, and why is in `says`.
    """

    release: Release
    says: str
    rule: str | None = None
    """Its id in registry/engines, or a part of the refusal."""
    model: str = "Qwen/Qwen3-8B"
    gpu: str = "H100"
    extra: tuple[str, ...] = ()
    recipe: dict[str, str] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    asks: dict[str, Any] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    planned_for: str | None = None
    """The release whose plan is shown to this one; None: its own."""

    def __str__(self) -> str:
        keys = [f"{name}={value}" for name, value in self.config.items()]
        words = [*self.extra, *map(str, [*self.recipe.values(), *self.env]), *keys]
        without = [f"without {flag}" for flag in self.without]
        return " ".join([str(self.release), self.model.split("/")[-1], self.gpu, *words, *without])


def of_draft(*further: str, **config: Any) -> dict[str, Any]:
    """Keys of the speculative config, as a user says them to us and as the engine reads them."""
    words = (
        word
        for name, value in config.items()
        for word in (f"-sc.{name}", value if isinstance(value, str) else json.dumps(value))
    )
    return {"config": config, "extra": further, "asks": {"engine_args": (*words, *further)}}


def of_ranks(ranks: int, shares: int) -> dict[str, Any]:
    """A context shared out among cards while decoding."""
    words = ("--decode-context-parallel-size", str(shares))
    return {
        "extra": ("--tensor-parallel-size", str(ranks), *words),
        "asks": {"engine_args": words, "tensor_parallel": ranks},
    }


def plan_of(case: Refused, version: str, registry: Registry) -> Plan:
    """What is asked by an option of ours is not said again in the engine's words."""
    asks = case.asks or {"engine_args": case.extra}
    request = Request(
        model=case.model, engine=case.release.engine, engine_version=version,
        trust_remote_code=True,
        **case.options | asks | {"engine_args": keyless(asks.get("engine_args", ()))},
    )  # fmt: skip
    return make_plan(registry, request, cards(f"{case.gpu}:{COUNT}", REGISTRY.gpus))


def keyless(words: tuple[str, ...]) -> tuple[str, ...]:
    """Without a watermark's key, which the engine needs and this project takes in a file alone."""
    return tuple(re.sub(r'"key": 1(?:, )?', "", word) for word in words)


def changed(case: Refused) -> Registry:
    """The registry with another recipe for this model, as an overlay could have it."""
    entry = REGISTRY.entries[case.model]
    recipes = [msgspec.structs.replace(recipe, **case.recipe) for recipe in entry.model.recipes]
    model = msgspec.structs.replace(entry.model, recipes=recipes)
    return replace(REGISTRY, entries=REGISTRY.entries | {entry.id: replace(entry, model=model)})


def command(case: Refused) -> dict[str, Any]:
    """The plan without the offence, and then the offence, for the engine to judge."""
    innocent = replace(case, extra=(), asks={})
    plan = plan_of(innocent, case.planned_for or case.release.version, REGISTRY)
    made = as_case(str(case), case.gpu, plan, judge_config=case.release != RELEASES[-1])
    words = [*without(made.argv, case.without), *case.extra]
    config = dict(case.config)
    if case.recipe:
        config["attention_backend"] = case.recipe[DRAFT]
    if config:
        at = words.index("--speculative-config") + 1
        said = json.loads(words[at]) | config
        words[at] = json.dumps({name: value for name, value in said.items() if value is not None})
    return made.message() | {"argv": words, "env": made.env | case.env}


def without(argv: tuple[str, ...], flags: tuple[str, ...]) -> Iterator[str]:
    words = iter(argv)
    for word in words:
        if word in flags:
            next(words)
        else:
            yield word
