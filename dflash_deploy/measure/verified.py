"""Whether DFlash is lossless here, as one value: `dflash verify --json`, and all that is told."""

from __future__ import annotations

from typing import Literal

import msgspec

from dflash_deploy.measure.judged import Judgement
from dflash_deploy.measure.report import Setting

VERIFY_SCHEMA = "dflash.verify/1"

Reason = Literal[
    "nothing_compared", "nothing_drafted", "plain_drafts", "unseen", "costly", "untold", "loops",
    "worse_answers", "other_distribution",
]  # fmt: skip


class Accuracy(msgspec.Struct, frozen=True, kw_only=True):
    """Answers against what is known to be right."""

    known: int
    """Prompts whose right answer is known."""
    plain: int
    dflash: int
    lost: int
    """Right by plain decoding alone."""
    won: int
    """Right with DFlash alone."""
    p: float
    """Of a one-sided sign test: how likely chance alone loses so many more than it wins."""


class Sampled(msgspec.Struct, frozen=True):
    """Many answers to one prompt by each server; `p`: may they be of one distribution?"""

    workload: str
    prompt: str
    plain: int
    dflash: int
    p: float


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """What the draft was worth meanwhile, beside what is on record."""

    length: float | None
    """Tokens a draft-verify cycle yields, bonus included; None: it cannot be seen."""
    drafts: float | None
    drafted: float | None = None
    """Draft tokens of a cycle."""
    undrafted: float | None = None
    """Share of DFlash's tokens that came without a draft; None: nobody can tell."""
    plain_drafts: float | None
    """What a plain server of its own drafted: nothing, or it is none."""
    source: str
    on_record: float | None = None
    record: str | None = None
    """Of which task, and from where."""


class Failing(msgspec.Struct, frozen=True):
    """Why the gate fails, by a stable name and in words."""

    reason: Reason
    message: str


class Failure(msgspec.Struct, frozen=True):
    """The error that the command ended with, as every command's `--json` has it."""

    code: str
    message: str
    hint: str | None
    detail: str | None


class Verification(Setting, frozen=True, kw_only=True):
    """A whole verification."""

    schema: str = VERIFY_SCHEMA
    max_regret: float
    """Nats that a first divergence may cost."""
    questions: int
    compared: int
    """Questions that both servers answered."""
    judgement: Judgement | None = None
    """At temperature 0."""
    accuracy: Accuracy | None = None
    """None: no prompt has a known answer."""
    sampled: tuple[Sampled, ...] = ()
    same_distribution: float | None = None
    """One p-value over all prompts; None at temperature 0."""
    acceptance: Accepted | None = None
    complete: bool
    passed: bool = False
    failing: tuple[Failing, ...] = ()
    error: Failure | None = None
