"""One answer of `dflash chat`: shown as it streams, and what it cost."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

from dflash_deploy.cli import _output
from dflash_deploy.errors import DFlashError
from dflash_deploy.measure.client import Delta, request_body, stream_chat
from dflash_deploy.measure.lossless import Token
from dflash_deploy.measure.metrics import SpeculationCounters, read_counters
from dflash_deploy.plan import Endpoint

STOPPED = "stopped"
"""By a Ctrl-C: no server ends an answer so."""
_STEERING = dict.fromkeys({*range(0x20), *range(0x7F, 0xA0)} - {ord("\n"), ord("\t")})
"""Characters that steer a terminal; a model may say any."""


@dataclass(frozen=True)
class Style:
    """How to talk, as the options say."""

    ask: str | None
    compare: bool
    thinking: bool | None
    reasoning_effort: str | None
    temperature: float
    max_tokens: int | None
    """None: all that the context has room for."""


@dataclass(frozen=True)
class Turn:
    """One answer, and its speed. `tokens` are the server's count."""

    text: str
    tokens: int
    seconds: float
    """From the first piece of the answer to the last: decoding, without the prompt."""
    acceptance_length: float | None
    told: tuple[Token, ...] = ()
    """What of it has log-probabilities."""
    ended: str | None = None
    """Why: what the server calls its finish_reason, or STOPPED."""

    @property
    def tokens_per_second(self) -> float | None:
        # the first token is the prompt's work
        return (self.tokens - 1) / self.seconds if self.tokens > 1 and self.seconds > 0 else None


@dataclass
class _Coming:
    """What has come of an answer."""

    text: str = ""
    first: float = 0.0
    last: float = 0.0
    told: list[Token] = field(default_factory=list)
    final: Delta = field(default_factory=Delta)
    ended: str | None = None

    def take(self, delta: Delta) -> None:
        if delta.content or delta.reasoning:
            self.last = time.monotonic()
            self.first = self.first or self.last
        self.text += delta.content
        self.told += delta.tokens
        self.ended = delta.finish_reason or self.ended
        if delta.usage or delta.metrics:
            self.final = replace_delta(self.final, delta)

    def turn(self, length: float | None) -> Turn:
        tokens = self.final.usage.completion_tokens if self.final.usage else 0
        told = tuple(self.told)
        return Turn(self.text, tokens, self.last - self.first, length, told, self.ended)


def answer(
    endpoint: Endpoint,
    messages: Sequence[Mapping[str, str]],
    style: Style,
    thinking_key: str | None,
    *,
    shown: bool = True,
    stoppable: bool = False,
    extra: dict[str, object] | None = None,
) -> Turn:
    """Stream one answer to stdout; thoughts go to stderr, so that a pipe gets the answer alone.

    `stoppable`: a Ctrl-C once it has begun ends the answer, not the command.
    """
    kwargs = {thinking_key: style.thinking} if thinking_key and style.thinking is not None else {}
    if endpoint.engine == "sglang":
        extra = {"return_spec_tokens_details": True, **(extra or {})}  # from 0.5.19; else ignored
    before = counters(endpoint)
    body = request_body(
        endpoint, messages, max_tokens=style.max_tokens, temperature=style.temperature,
        template_kwargs=kwargs, reasoning_effort=style.reasoning_effort, extra=extra,
    )  # fmt: skip
    coming, length = _Coming(), None
    try:
        with closing(stream_chat(endpoint, body)) as deltas, _own_line(coming, shown=shown):
            for delta in deltas:
                coming.take(delta)  # before it is shown: what somebody saw is not lost
                if shown:
                    _output.thought(delta.reasoning.translate(_STEERING))
                    _output.fragment(delta.content.translate(_STEERING))
        length = acceptance_length(coming.final) or counted_length(before, counters(endpoint))
    except KeyboardInterrupt:
        if not stoppable or not coming.text:
            raise
        coming.ended = STOPPED
    return coming.turn(length)


@contextmanager
def _own_line(coming: _Coming, *, shown: bool) -> Iterator[None]:
    """The answer's line is ended, also where something breaks the answer off."""
    try:
        yield
    except (DFlashError, KeyboardInterrupt):
        if shown and coming.first:
            _output.text()
        raise
    if shown:
        _output.text()


def replace_delta(known: Delta, new: Delta) -> Delta:
    return Delta(usage=new.usage or known.usage, metrics=new.metrics or known.metrics)


def acceptance_length(delta: Delta) -> float | None:
    """From the server's report on this request: vLLM's and ours, or SGLang's."""
    metrics = delta.metrics or {}
    report = metrics.get("speculative_decoding") or metrics.get("spec_tokens_details")
    if not isinstance(report, dict):
        return None
    found = report.get("mean_acceptance_length") or report.get("spec_accept_length")
    return float(found) if found and isinstance(found, (int, float)) else None


def counters(endpoint: Endpoint) -> SpeculationCounters | None:
    """For a server that reports on no single request; None where it publishes none."""
    try:
        return read_counters(endpoint)
    except DFlashError:
        return None


def counted_length(
    before: SpeculationCounters | None, after: SpeculationCounters | None
) -> float | None:
    """The acceptance length over this answer, if the server had no other in the meantime."""
    counted = after.since(before) if before and after else None
    return counted.acceptance_length if counted else None


def in_words(turn: Turn, max_tokens: int | None) -> str:
    """The line under an answer. `max_tokens`: how long it was allowed to be."""
    parts = [f"{turn.tokens} tokens"] if turn.tokens or turn.ended != STOPPED else []
    if turn.tokens_per_second:
        parts.append(f"{turn.tokens_per_second:.1f} tokens/s")
    if turn.acceptance_length:
        parts.append(f"acceptance length {turn.acceptance_length:.2f}")
    if turn.ended == STOPPED:
        parts.append("stopped: what came is kept")
    elif turn.ended == "length":
        full = max_tokens is None or 0 < turn.tokens < max_tokens
        why = "the context is full" if full else "--max-tokens allows more"
        parts.append(f"cut off: {why}")
    return "[" + ", ".join(parts) + "]"
