"""What an acceptance check means: a pure judgement, with the likely causes in order."""

from __future__ import annotations

import shlex
from typing import Literal

import msgspec

from dflash_deploy.measure.acceptance import Acceptance
from dflash_deploy.plan import Plan
from dflash_deploy.suspects import Suspect

State = Literal["fine", "low", "collapsed", "inactive", "unseen"]
COLLAPSED = 1.05
"""Below this, hardly a draft token is ever right: something is wired wrongly."""
ACTIVE: tuple[State, ...] = ("fine", "low")
LOW = 0.5
"""Of the expectation. Four short prompts scatter; half of it is no scatter."""


class Verdict(msgspec.Struct, frozen=True):
    state: State
    message: str
    causes: tuple[Suspect, ...] = ()
    """What to look at first, first."""

    @property
    def active(self) -> bool:
        """The draft's tokens are accepted at all."""
        return self.state in ACTIVE


def state_of(length: float, expected: float | None) -> State:
    """What an acceptance length says, beside the lowest on record."""
    if length < COLLAPSED:
        return "collapsed"
    return "low" if expected is not None and length < LOW * expected else "fine"


def verdict(acceptance: Acceptance, plan: Plan) -> Verdict:
    """Judge a check against what the registry has on record, if there is anything."""
    length, expectation = acceptance.length, plan.expectation
    if acceptance.drafts == 0:
        message = "speculation is off: the server drafted nothing"
        return Verdict("inactive", message, inactive(plan))
    if length is None:
        message = f"speculation cannot be seen: {acceptance.method}"
        return Verdict("unseen", message, unseen(plan))
    measured = f"acceptance length {length:.2f}"
    state = state_of(length, expectation.acceptance_length if expectation else None)
    if state == "collapsed":
        message = f"{measured}: the draft runs, and almost nothing of it is accepted"
        return Verdict(state, message, plan.suspects)
    if expectation is None:
        return Verdict("fine", f"{measured}; nothing is published to compare it with")
    expected = f"{expectation.acceptance_length:.2f} ({expectation.source})"
    below = length < expectation.acceptance_length
    if state == "low":
        message = f"{measured}, less than half of the lowest on record, {expected}"
        return Verdict(state, message, plan.suspects)
    than = "somewhat below" if below else "no less than"
    return Verdict("fine", f"{measured}, {than} the lowest on record, {expected}")


def inactive(plan: Plan) -> tuple[Suspect, ...]:
    """Why a server may draft nothing at all."""
    return (
        Suspect(
            "the server was started without the draft: its command should be this one",
            _planned(plan),
        ),
        Suspect(
            f"{plan.engine} {plan.version} ignores this kind of draft",
            f"dflash doctor, then dflash show {_typed(plan)}",
        ),
        Suspect(f"another server answers at {plan.base_url}", f"curl {plan.base_url}/v1/models"),
    )


def unseen(plan: Plan) -> tuple[Suspect, ...]:
    """Why nothing may be seen of its drafts."""
    return (
        Suspect(
            "metrics are off: SGLang needs --enable-metrics, vLLM no --disable-log-stats",
            f"curl {plan.base_url}/metrics",
        ),
        Suspect("the server was started without a draft", _planned(plan)),
    )


def _planned(plan: Plan) -> str:
    return f"dflash plan {_typed(plan)} --engine {plan.engine}"


def _typed(plan: Plan) -> str:
    return shlex.quote(plan.served_names[-1])
