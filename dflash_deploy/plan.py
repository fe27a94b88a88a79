"""`Plan`: the one value that says everything about a server to be started, and `make_plan`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import msgspec

from dflash_deploy.engines import command
from dflash_deploy.engines.common import as_choices, port
from dflash_deploy.engines.spelling import Command, argv, spelled
from dflash_deploy.hardware import Hardware
from dflash_deploy.memory import Fit
from dflash_deploy.registry import Registry
from dflash_deploy.request import HEAD, RANK, Choice, Rejected, Request, Resolution
from dflash_deploy.resolve import resolve
from dflash_deploy.schema import EngineName, Status, Thinking
from dflash_deploy.suspects import Suspect, suspects

PLAN_SCHEMA = "dflash.plan/1"


class Secret(msgspec.Struct, frozen=True):
    """An environment variable that the server gets by name: its value is in no plan and no log."""

    env: str
    taken_from: str


class WeightsRef(msgspec.Struct, frozen=True):
    """Weights that a plan needs, and where they come from."""

    id: str
    """Hub id of the repository, or the registry's own id for weights that ship with it."""
    revision: str | None
    name: str
    """Which set of weights: bf16, mxfp4, q4_1."""
    path: str | None
    """A local folder; None: the engine fetches `id` from the hub itself."""
    licence: str | None = None


class Expectation(msgspec.Struct, frozen=True):
    """What the acceptance check compares with, from the entry's evidence."""

    acceptance_length: float
    """The lowest published or measured one for this block size, bonus token included."""
    source: str
    highest: float | None = None
    """The highest one: more than that is seldom a better draft."""


class Nodes(msgspec.Struct, frozen=True, kw_only=True):
    """Several machines that share one model: what each is told behind the plan's own argv."""

    count: int
    words: tuple[str, ...]
    """The marks RANK and HEAD stand for the node's number and the first node's address."""
    follower: tuple[str, ...]
    """What all but the first are told beside."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A server, fully decided. `argv` is the truth: every text form is made from it."""

    schema: str = PLAN_SCHEMA
    model: str
    """The registry entry: the target's hub id."""
    target: WeightsRef
    draft: WeightsRef
    draft_kind: str
    block_size: int
    engine: EngineName
    version: str
    status: Status
    argv: tuple[str, ...]
    env: dict[str, str]
    secrets: tuple[Secret, ...] = ()
    host: str
    port: int
    served_names: tuple[str, ...]
    health_path: str
    thinking: Thinking | None
    """The mode the server answers in unless a request says otherwise; None: no such mode."""
    thinking_key: str | None
    """The boolean of `chat_template_kwargs` that switches it; None: it cannot be switched."""
    context: int
    concurrency: int
    tensor_parallel: int
    nodes: Nodes | None = None
    """None: one machine."""
    memory: Fit | None = None
    """What this takes of each card, in GiB; None where that is not known."""
    hardware: Hardware = Hardware()
    """The cards it was made for; none where they are unknown, or where it runs on the CPU."""
    expectation: Expectation | None = None
    suspects: tuple[Suspect, ...] = ()
    """What to look at first should the draft not be accepted."""
    choices: tuple[Choice, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """What clients cannot ask of this engine with DFlash on."""

    @property
    def base_url(self) -> str:
        return f"http://{reachable(self.host)}:{self.port}"

    @property
    def cards_here(self) -> int:
        """Cards of one machine that share the model."""
        return self.tensor_parallel // (self.nodes.count if self.nodes else 1)

    def of_node(self, rank: str, head: str, *, first: bool) -> tuple[str, ...]:
        """The argv of one node: its number, and where the first one is, as this form says it."""
        if self.nodes is None:
            return self.argv
        words = (*self.nodes.words, *(() if first else self.nodes.follower))
        return (*self.argv, *(w.replace(RANK, rank).replace(HEAD, head) for w in words))


class Endpoint(msgspec.Struct, frozen=True):
    """A server that answers: what launch hands to chat, bench and the acceptance check."""

    base_url: str
    model: str
    engine: EngineName
    version: str | None = None
    api_key_env: str | None = None

    @property
    def address(self) -> str:
        """What may be shown of `base_url`: without a password in it."""
        return without_password(self.base_url)


def without_password(text: str) -> str:
    """URLs in it lose what stands before the `@`."""
    return re.sub(r"(?<=://)[^/@\s]*@", "", text)


def reachable(host: str) -> str:
    """The address a client on this machine uses for a server bound to `host`."""
    host = host.strip("[]")
    local = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
    return f"[{local}]" if ":" in local else local


def make_plan(registry: Registry, request: Request, hardware: Hardware) -> Plan:
    """Resolve a request and write the answer down in its engine's words. Pure.

    Raises what `resolve` raises, and Unsupported for a setting the release cannot be told.
    """
    resolution = resolve(registry, request, hardware)
    words = without(command(resolution), resolution.said)
    modes = resolution.entry.target.thinking
    return Plan(
        model=resolution.entry.id,
        target=target_weights(resolution),
        draft=draft_weights(resolution),
        draft_kind=resolution.draft.kind,
        block_size=resolution.block_size,
        engine=request.engine,
        version=str(resolution.version),
        status=resolution.status,
        argv=argv(resolution.engine, resolution.version, words),
        env=words.env,
        secrets=secrets(request, words),
        host=request.host,
        port=port(resolution),
        served_names=served_names(words),
        health_path=resolution.engine.health_path,
        thinking=resolution.thinking,
        thinking_key=modes.template_key if modes else None,
        context=resolution.context,
        concurrency=resolution.concurrency,
        tensor_parallel=resolution.tensor_parallel,
        nodes=nodes(resolution, words),
        memory=resolution.fit,
        hardware=hardware,
        expectation=expectation(resolution),
        suspects=suspects(resolution),
        choices=tuple(explain(resolution, words)),
        rejected=resolution.rejected,
        warnings=(*resolution.warnings, *words.warnings, *untried(request)),
        notes=resolution.notes,
    )


def nodes(resolution: Resolution, words: Command) -> Nodes | None:
    if not words.node:
        return None
    engine, version = resolution.engine, resolution.version
    return Nodes(
        count=resolution.request.nodes,
        words=spelled(engine, version, words.node),
        follower=spelled(engine, version, words.follower),
    )


def untried(request: Request) -> Iterator[str]:
    if request.nodes > 1:
        yield "no run of a DFlash draft over several nodes is on record: its speed is not known"


def without(words: Command, said: frozenset[str]) -> Command:
    """What somebody says in the engine's own words is not said a second time."""
    return replace(words, settings=tuple(s for s in words.settings if s.name not in said))


def target_weights(resolution: Resolution) -> WeightsRef:
    entry, weights = resolution.entry, resolution.weights
    path, licence = resolution.target_path, entry.target.licence
    return WeightsRef(entry.id, weights.revision, weights.name, path, licence)


def draft_weights(resolution: Resolution) -> WeightsRef:
    draft = resolution.draft
    name = draft.quantization or "bf16"
    path, revision = resolution.draft_path, resolution.draft_revision
    return WeightsRef(draft.id, revision, name, path, draft.licence)


def secrets(request: Request, words: Command) -> tuple[Secret, ...]:
    """The API key by name. An engine that reads none from the environment gets it at launch."""
    if request.api_key_env is None:
        return ()
    return (Secret(words.secret_env or "", request.api_key_env),)


def served_names(words: Command) -> tuple[str, ...]:
    return next(item.words for item in words.settings if item.name == "served_names")


def expectation(resolution: Resolution) -> Expectation | None:
    """The lowest acceptance length anybody saw for this draft at this block size."""
    seen = [
        (row.acceptance_length, f"{row.task}: {evidence.source}")
        for evidence in resolution.entry.model.evidence
        for row in evidence.results
        if evidence.build is None
        and evidence.draft in (None, resolution.draft.id)
        and evidence.weights in (None, resolution.weights.name)
        and row.acceptance_length is not None
        and (row.block_size or evidence.block_size) == resolution.block_size
    ]
    return Expectation(*min(seen), highest=max(seen)[0]) if seen else None


def explain(resolution: Resolution, words: Command) -> Iterator[Choice]:
    """Every decision once: the resolution's, then the settings and variables it did not cover."""
    yield from resolution.choices
    yield from as_choices(words.settings, {choice.name for choice in resolution.choices})
    for name, value in words.env.items():
        yield Choice(name, value, words.env_why.get(name, "no telemetry"))
