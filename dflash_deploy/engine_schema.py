"""The types of `registry/engines/*.yaml`: releases, spellings, support, rules, images, installs.

A rule is data: a closed condition, a severity, and the words for the user. What a condition cannot
say by comparing values is one of the named checks, which `checks.py` computes.
"""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Literal

import msgspec

from dflash_deploy.schema import Architecture, Kind, KvDtype, Positive, Struct

Check = Literal[
    "active-above-admitted",
    "batched-tokens-budget",
    "block-above-trained",
    "block-sizes-differ",
    "buffer-of-none",
    "cache-block-size",
    "context-above-config",
    "context-above-draft",
    "context-parallel-ranks",
    "draft-heads-not-divisible",
    "dp-attention-ranks",
    "draft-in-several-groups",
    "draft-length-above-config",
    "draft-ranks",
    "draft-window-below-block",
    "lora-budget",
    "prefill-pages",
    "schedule-malformed",
    "synthetic-acceptance",
    "schedule-rests",
    "thinking-not-as-trained",
    "track-interval",
    "unchunked-prompt-above-budget",
    "watermark-not-for-drafts",
    "yarn-without-theta",
]
"""Arithmetic that a rule may ask for by name; each is one function of `checks.py`."""
Phase = Literal[
    "downloading weights",
    "loading weights",
    "loading the draft",
    "compiling",
    "reserving the KV cache",
    "warming up",
    "capturing CUDA graphs",
    "starting the server",
]
"""How far a start-up is, in the words a user reads."""
Meaning = Literal[
    "acceptance_length",
    "acceptance_rate",
    "accepted_per_position",
    "accepted_tokens",
    "cached_tokens",
    "draft_tokens",
    "drafts",
    "generated_tokens",
    "kv_usage",
    "running",
    "tpot",
    "ttft",
    "verified_tokens",
    "waiting",
]
"""What an engine may count. `drafts` are draft-verify cycles of one request; `verified_tokens` the
tokens that those cycles gave, bonus included, for engines that count those instead of the accepted
ones; `ttft` and `tpot` seconds of a request to its first token, and of each one after it."""
Severity = Literal["refuse", "warn", "fix", "note"]
"""A note is a limit of the engine with DFlash that a client may run into; plans list them."""


class Release(Struct, frozen=True, kw_only=True):
    version: str
    date: str | None = None
    torch: str | None = None
    python: str | None = None
    cuda: str | None = None
    """The CUDA of the binaries on PyPI, as `13.0`; the driver has to know it."""


class Spelling(Struct, frozen=True, kw_only=True):
    """How a setting is written on the engine's command line, in a range of releases.

    The first spelling of a setting whose range holds is used; a setting with none is unknown to
    that release. All of them are read: a release's parser may call it by another of its names.
    """

    setting: str
    flag: str
    versions: str | None = None


class WordNow(Struct, frozen=True, kw_only=True):
    """A word that an option took, and what its successor takes for it."""

    was: str
    now: str


class Renamed(Struct, frozen=True, kw_only=True):
    """An option that a later release no longer has, and what stands in its place."""

    flag: str
    now: str | None = None
    """None: nothing does."""
    value: str | None = None
    """What `now` is given; None: the words of the old option."""
    words: list[WordNow] = []
    """Which of those it calls otherwise."""
    why: str | None = None
    """What became of it, where that is more than another name."""
    source: str


class Support(Struct, frozen=True, kw_only=True):
    """The first release whose code serves these classes with DFlash."""

    role: Literal["target", "draft"]
    architectures: list[str]
    since: str
    source: str


class SettingIs(Struct, frozen=True, kw_only=True):
    """A condition on one setting of the command; with its name alone: that it is given."""

    name: str
    one_of: list[str] | None = None
    none_of: list[str] | None = None
    mentions: str | None = None
    """A part of its words, in lower case."""
    above: int | None = None
    absent: bool = False


class RuleWhen(Struct, frozen=True, kw_only=True):
    """The closed condition of a rule: every field given must hold; an unknown fact fulfils none."""

    version: str | None = None
    architecture: list[Architecture] | None = None
    targets: list[str] | None = None
    """Classes of the target: `architectures` in its config.json."""
    targets_except: list[str] | None = None
    """Every class but these."""
    target_weights: list[str] | None = None
    """Which of its weights are served, by name."""
    target_layers: Literal["linear", "mla", "sliding"] | None = None
    target_mla: bool | None = None
    """Whether its layers keep a latent (MLA) or heads of their own."""
    draft_kind: Kind | None = None
    draft_layers: list[Literal["full", "sliding", "mixed"]] | None = None
    """All full, all sliding, or both kinds."""
    draft_causal: bool | None = None
    draft_format: Literal["z-lab", "speculators"] | None = None
    draft_quantized: bool | None = None
    kv_dtype: list[KvDtype] | None = None
    draft_kv_dtype: list[KvDtype] | None = None
    """What the draft keeps its cache in: the target's, unless the command says otherwise."""
    tensor_parallel_above: Positive | None = None
    concurrency_above: Positive | None = None
    block_size_above: Positive | None = None
    settings: list[SettingIs] = []
    check: Check | None = None


class SetTo(Struct, frozen=True, kw_only=True):
    """A setting that a rule adds where neither the recipe nor the user said anything."""

    setting: str
    value: str | None = None
    """None: a bare switch."""


class Variable(Struct, frozen=True, kw_only=True):
    """An environment variable that a rule sets."""

    name: str
    value: str


class Rule(Struct, frozen=True, kw_only=True):
    """What an engine cannot do, does wrongly, or needs to be told, in some situations."""

    id: str
    when: RuleWhen
    severity: Severity
    message: str
    set: list[SetTo] = []
    """For `fix`: what is added to the command."""
    variables: list[Variable] = []
    """For `fix`: what is added to its environment."""
    hint: str | None = None
    """What to do about it: an option or a command."""
    lifted_in: str | None = None
    """The release without this limit; None: no release known lifts it."""
    accepts_less: bool = False
    """Where it holds, less of the draft is accepted: the acceptance check points at it."""
    ignored: bool = False
    """Where it holds, the engine does as if the setting had not been said."""
    source: str


class Wants(Struct, frozen=True, kw_only=True):
    """Options that an engine refuses, or does not read, unless another stands beside them."""

    flags: list[str]
    """Each alone; one that needs it with some of its words only has a word behind it."""
    need: list[str]
    """Any of them will do; with a word behind it, said so."""
    versions: str | None = None
    ignored: bool = False
    """The engine starts, and does not read what is said."""
    source: str


class Foreign(Struct, frozen=True, kw_only=True):
    """What names of another platform's kernels have in them, where an option lists its words."""

    part: str
    """In lower case."""
    platform: str
    source: str


class DeadSwitch(Struct, frozen=True, kw_only=True):
    """An environment variable of published commands that does nothing, or harm."""

    name: str
    versions: str | None = None
    """Where that is so; None: in every release."""
    message: str
    source: str


class Pin(Struct, frozen=True, kw_only=True):
    """What the tag of a release was seen to name: a tag may be moved, a digest is the content."""

    version: str
    digest: Annotated[str, msgspec.Meta(pattern=r"^sha256:[0-9a-f]{64}$")]


class Image(Struct, frozen=True, kw_only=True):
    """The engine's own container images; `{version}` stands for the release."""

    reference: str
    versions: str | None = None
    cuda: str | None = None
    pins: list[Pin] = []
    """The releases whose digest is known; the others go by their tag."""
    source: str


class Label(Struct, frozen=True, kw_only=True):
    """A label of a metric's series, and the value that is meant."""

    name: str
    value: str


class MetricName(Struct, frozen=True, kw_only=True):
    """What the engine calls a quantity at its metrics endpoint."""

    meaning: Meaning
    name: str
    type: Literal["counter", "gauge", "histogram"]
    label: Label | None = None
    """Only the series that carry it; None: all of them."""
    versions: str | None = None
    source: str | None = None


class PhaseSign(Struct, frozen=True, kw_only=True):
    """A line of the engine's log that says how far its start-up is."""

    phase: Phase
    says: str
    """A regular expression, searched for in the line."""
    versions: str | None = None
    example: str
    """Such a line, or its beginning: as a release wrote it, or as its source or a report has it."""
    source: str


class Failure(Struct, frozen=True, kw_only=True):
    """A line of a dead engine's log whose cause is known, and what to do about it."""

    id: str
    says: str
    """A regular expression, searched for in each of the last lines."""
    alone: bool = False
    """It is no cause where another error follows: an engine may go on without, and die later."""
    versions: str | None = None
    hint: str
    example: str
    source: str


class Endpoints(Struct, frozen=True, kw_only=True):
    """Paths of the server that say how it is, beside the OpenAI ones."""

    metrics: str
    models: str = "/v1/models"
    info: str | None = None
    """The resolved settings."""
    version: str | None = None


class CudaNeed(Struct, frozen=True, kw_only=True):
    """The CUDA that a release's wheels on PyPI are built for, and the first driver that runs it.

    A driver runs every CUDA of its own major version or an older one: NVIDIA's minor version
    compatibility.
    """

    cuda: str
    driver: str
    versions: str | None = None
    source: str


class Constraint(Struct, frozen=True, kw_only=True):
    """What must hold besides a release's own pins, as a PEP 508 requirement."""

    requirement: str
    versions: str | None = None
    because: str
    source: str


class ParserRun(Struct, frozen=True, kw_only=True):
    """The words that make the engine show its server's options, and one that it must show."""

    arguments: list[str]
    shows: str


class Install(Struct, frozen=True, kw_only=True):
    """How a release gets an environment of its own."""

    python: str
    """Pythons that the releases have wheels for; `Release.python` narrows it."""
    cuda: list[CudaNeed]
    constraints: list[Constraint] = []
    parser: ParserRun
    source: str


class Engine(Struct, frozen=True, kw_only=True, dict=True):
    """One file of `registry/engines`."""

    distribution: str
    """Its name on PyPI."""
    executable: str
    first_release: str
    """The first that knows DFlash."""
    port: int
    health_path: str
    endpoints: Endpoints = Endpoints(metrics="/metrics")
    releases: list[Release]
    spellings: list[Spelling]
    renamed: list[Renamed] = []
    supports: list[Support] = []
    rules: list[Rule] = []
    needs: list[Wants] = []
    foreign: list[Foreign] = []
    dead_switches: list[DeadSwitch] = []
    images: list[Image] = []
    metrics: list[MetricName] = []
    phases: list[PhaseSign] = []
    """The first sign that a line bears says its phase."""
    failures: list[Failure] = []
    """The first whose line was seen is the cause: the particular ones stand before the general."""
    install: Install | None = None
    """None: it needs no environment of its own."""
    allowed_flags: list[str] = []
    """What `flags` of an overlay's recipe may set: no paths, no hooks, no remote code."""

    @cached_property
    def meanings(self) -> dict[str, str]:
        """What the registry calls what a flag says."""
        return {spelling.flag: spelling.setting for spelling in self.spellings}
