"""A question and its answer: what a user asked for, and everything decided about it.

A `Choice` is one decision with its reason; a `Resolution` holds all of them, still in the words
of the registry, for an engine's adapter to write down.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
from packaging.version import Version

from dflash_deploy.engine_schema import Engine
from dflash_deploy.hardware import Hardware
from dflash_deploy.memory import Fit
from dflash_deploy.registry import Entry
from dflash_deploy.resources import registry_root
from dflash_deploy.rules import Finding
from dflash_deploy.schema import (
    Draft,
    EngineName,
    KvDtype,
    Parsers,
    Recipe,
    Status,
    Thinking,
    Weights,
)

RANK, HEAD = "{rank}", "{head}"
"""Marks in what each of several nodes is told; every form puts its own words in their place."""


class Choice(msgspec.Struct, frozen=True):
    """One decision, the reason for it, and where the reason comes from."""

    name: str
    value: str
    why: str
    source: str | None = None


class Rejected(msgspec.Struct, frozen=True):
    """A recipe that did not apply, and the condition that failed."""

    name: str
    why: str


class Fix(msgspec.Struct, frozen=True):
    """A setting that one of the engine's rules adds to the command."""

    setting: str
    value: str | None
    """None: a bare switch."""
    why: str
    source: str


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the user asked for; None leaves the choice to the registry."""

    model: str
    """An alias, the target's hub id, or a draft's: that draft is used then."""
    engine: EngineName
    engine_version: str | None = None
    host: str = "127.0.0.1"
    port: int | None = None
    block_size: int | None = None
    concurrency: int | None = None
    context: int | None = None
    tensor_parallel: int | None = None
    nodes: int = 1
    """Machines that share one model; the cards that are known are those of each."""
    kv_dtype: KvDtype = "auto"
    weights: str | None = None
    target_path: str | None = None
    """Where the target's weights are already, for the engine that does not fetch them itself."""
    draft_path: str | None = None
    """Where the draft's are, likewise."""
    trust_remote_code: bool = False
    api_key_env: str | None = None
    """Name of the environment variable that holds the key the server shall ask for."""
    engine_args: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Resolution:
    """Every answer, still in the words of the registry."""

    request: Request
    entry: Entry
    engine: Engine
    version: Version
    hardware: Hardware
    recipe: Recipe
    status: Status
    draft: Draft
    weights: Weights
    block_size: int
    concurrency: int
    context: int
    tensor_parallel: int
    memory_fraction: float | None
    """The engine's share of a card, where the recipe has one that fits; None: its own default."""
    fit: Fit | None
    """What this takes of each card; None where that is not known."""
    thinking: Thinking | None
    parsers: Parsers | None
    said: frozenset[str]
    """Settings said in the engine's words, by the recipe or after `--`; none is repeated."""
    fixes: tuple[Fix, ...]
    """Settings that the engine's rules add."""
    variables: tuple[Fix, ...]
    """Environment variables that they add."""
    notes: tuple[str, ...]
    """Limits that a client may run into."""
    choices: tuple[Choice, ...]
    rejected: tuple[Rejected, ...]
    warnings: tuple[str, ...]
    doubts: tuple[Finding, ...] = ()
    """What the engine's rules know to make the draft be accepted less."""

    @property
    def target_path(self) -> str | None:
        """The folder of the target's weights; None where the engine finds them by their id."""
        return self.request.target_path or self.weights.path

    @property
    def draft_path(self) -> str | None:
        """The folder of the draft's, likewise; that of the registry for one that ships with it."""
        shipped = self.draft.path
        return self.request.draft_path or (str(registry_root() / shipped) if shipped else None)

    @property
    def draft_revision(self) -> str | None:
        """What the engine fetches of the draft; None for a folder of the request's own."""
        return None if self.request.draft_path else self.draft.revision

    def fix(self, setting: str) -> Fix | None:
        return next((item for item in self.fixes if item.setting == setting), None)
