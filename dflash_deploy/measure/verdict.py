"""What an acceptance check means: a pure judgement, with the likely causes in order."""

from __future__ import annotations

from typing import Literal

import msgspec

from dflash_deploy.measure.acceptance import Acceptance
from dflash_deploy.plan import Expectation
from dflash_deploy.schema import Thinking

State = Literal["fine", "low", "collapsed", "inactive", "unseen"]
COLLAPSED = 1.05
"""Below this, hardly a draft token is ever right: something is wired wrongly."""
LOW = 0.5
"""Of the expectation. Four short prompts scatter; half of it is no scatter."""


class Verdict(msgspec.Struct, frozen=True):
    state: State
    message: str
    causes: tuple[str, ...] = ()
    """What to look at first, first."""

    @property
    def active(self) -> bool:
        """The draft's tokens are accepted at all."""
        return self.state in ("fine", "low")


def verdict(
    acceptance: Acceptance, expectation: Expectation | None, *, thinking: Thinking | None = None
) -> Verdict:
    """Judge a check against the registry's evidence, if there is any."""
    length = acceptance.length
    if acceptance.drafts == 0:
        return Verdict("inactive", "speculation is off: the server drafted nothing", INACTIVE)
    if length is None:
        return Verdict("unseen", f"speculation cannot be seen: {acceptance.method}", UNSEEN)
    measured = f"acceptance length {length:.2f}"
    if length < COLLAPSED:
        message = f"{measured}: the draft runs, and almost nothing of it is accepted"
        return Verdict("collapsed", message, _causes(thinking))
    if expectation is None:
        return Verdict("fine", f"{measured}; nothing is published to compare it with")
    expected = f"{expectation.acceptance_length:.2f} ({expectation.source})"
    below = length < expectation.acceptance_length
    if length < LOW * expectation.acceptance_length:
        message = f"{measured}, less than half of the lowest on record, {expected}"
        return Verdict("low", message, _causes(thinking))
    than = "somewhat below" if below else "no less than"
    return Verdict("fine", f"{measured}, {than} the lowest on record, {expected}")


INACTIVE = (
    "the server was started without the draft: look for the speculative settings in its log",
    "the engine is too old for this kind of draft and ignored it",
    "another server answers at this address",
)
UNSEEN = (
    "metrics are switched off: SGLang needs --enable-metrics, vLLM no --disable-log-stats",
    "the server was started without a draft",
)


def _causes(thinking: Thinking | None) -> tuple[str, ...]:
    mode = {"on": "on", "off": "off", None: "not set"}[thinking]
    return (
        f"thinking mode (here: {mode}): drafts are trained for one mode and fail in the other",
        "another revision of the target or the draft: both were retrained under their names",
        "a quantized draft: its weights may load wrongly without an error; use the bf16 one",
        "the engine's version: some releases read the wrong layers or ignore sliding windows",
    )
