"""The conversation of `dflash chat`: turns, the answer as it streams, and what it cost."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

from dflash_deploy.cli import _output
from dflash_deploy.cli._options import api_key_env
from dflash_deploy.cli._planning import Wanted
from dflash_deploy.errors import DFlashError, UnknownModel, UsageError
from dflash_deploy.measure.client import Delta, request_body, stream_chat, whole_characters
from dflash_deploy.measure.connection import served_models
from dflash_deploy.measure.lossless import NEAR_TIE, Answer, Token, first_divergence
from dflash_deploy.measure.metrics import SpeculationCounters, read_counters
from dflash_deploy.measure.questions import MOST_TOLD
from dflash_deploy.plan import Endpoint
from dflash_deploy.registry import load

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
    max_tokens: int


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

    @property
    def tokens_per_second(self) -> float | None:
        # the first token is the prompt's work
        return (self.tokens - 1) / self.seconds if self.tokens > 1 and self.seconds > 0 else None


def with_server(
    wanted: Wanted, style: Style, *, engine_env: Path | None, timeout: float | None
) -> None:
    """Start a server for the conversation, and end it with it."""
    from dflash_deploy.cli._running import ended_meanwhile, ready, running
    from dflash_deploy.measure.proof import endpoint_of

    with running(wanted, engine_env=engine_env, quiet=True) as (plan, process):
        ready(plan, process, gate="warn", timeout=timeout, alone=True)
        if style.thinking is None and plan.thinking:
            # said with each request: not every release has a default for the server
            style = replace(style, thinking=plan.thinking == "on")
        with ended_meanwhile(process, "while it answered"):
            converse(endpoint_of(plan), style, thinking_key=plan.thinking_key)


def endpoint_at(url: str, served_name: str | None) -> Endpoint:
    """The server behind a URL, with or without `/v1`; its first model unless one is named."""
    from dflash_deploy.measure.connection import base_of

    base = base_of(url)
    unnamed = Endpoint(base, served_name or "", "vllm", None, api_key_env())
    return unnamed if served_name else replace_model(unnamed, served_models(unnamed)[0])


def thinking_key_of(registry: Path | None, served: str) -> str | None:
    """What switches thinking at a server somebody else started: as its entry says, or Qwen's."""
    try:
        modes = load(registry).find(served).target.thinking
    except UnknownModel:
        return "enable_thinking"
    return modes.template_key if modes else None


def replace_model(endpoint: Endpoint, model: str) -> Endpoint:
    import msgspec

    return msgspec.structs.replace(endpoint, model=model)


def converse(endpoint: Endpoint, style: Style, *, thinking_key: str | None) -> None:
    """One question, or turns until end of input; the conversation so far goes with each."""
    if style.ask is not None and not style.ask.strip():
        raise UsageError("--ask without a question", hint="leave --ask out to be asked")
    messages: list[dict[str, str]] = []
    for question in _questions() if style.ask is None else [whole_characters(style.ask)]:
        messages.append({"role": "user", "content": question})
        try:
            turn = answer(endpoint, messages, style, thinking_key)
        except UsageError as error:
            # the server stands, and somebody sits there who can ask for less
            if style.ask is not None or not on_terminal(sys.stdin):
                raise
            _output.error(error, as_json=False)
            messages.pop()
            continue
        _output.note(in_words(turn))
        if style.compare:
            compare(endpoint, messages, style, thinking_key, turn)
        messages.append({"role": "assistant", "content": turn.text})


def on_terminal(stdin: TextIO | None) -> bool:
    return stdin is not None and stdin.isatty()


def _questions() -> Iterator[str]:
    if sys.stdin is None:
        return  # closed before we began
    asks = on_terminal(sys.stdin)
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    while True:
        if asks:
            _output.prompt("> ")
        line = sys.stdin.readline()
        if not line:
            return
        if line.strip():
            yield line.strip()


def answer(
    endpoint: Endpoint,
    messages: list[dict[str, str]],
    style: Style,
    thinking_key: str | None,
    *,
    shown: bool = True,
    extra: dict[str, object] | None = None,
) -> Turn:
    """Stream one answer to stdout; thoughts go to stderr, so that a pipe gets the answer alone."""
    kwargs = {thinking_key: style.thinking} if thinking_key and style.thinking is not None else {}
    if endpoint.engine == "sglang":
        extra = {"return_spec_tokens_details": True, **(extra or {})}  # from 0.5.19; else ignored
    before = counters(endpoint)
    body = request_body(
        endpoint, messages, max_tokens=style.max_tokens, temperature=style.temperature,
        template_kwargs=kwargs, reasoning_effort=style.reasoning_effort, extra=extra,
    )  # fmt: skip
    first = last = 0.0
    text, final, told = "", Delta(), list[Token]()
    deltas = stream_chat(endpoint, body)
    for delta in _ended_line(deltas) if shown else deltas:
        if delta.content or delta.reasoning:
            last = time.monotonic()
            first = first or last
        text += delta.content
        told += delta.tokens
        if shown:
            _output.thought(delta.reasoning.translate(_STEERING))
            _output.fragment(delta.content.translate(_STEERING))
        if delta.usage or delta.metrics:
            final = replace_delta(final, delta)
    if shown:
        _output.text()
    tokens = final.usage.completion_tokens if final.usage else 0
    length = acceptance_length(final) or counted_length(before, counters(endpoint))
    return Turn(text, tokens, last - first, length, tuple(told))


def _ended_line(deltas: Iterator[Delta]) -> Iterator[Delta]:
    """What breaks an answer off is told on a line of its own."""
    begun = False
    try:
        for delta in deltas:
            begun = begun or bool(delta.content or delta.reasoning)
            yield delta
    except (DFlashError, KeyboardInterrupt):
        if begun:
            _output.text()
        raise


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


def in_words(turn: Turn) -> str:
    parts = [f"{turn.tokens} tokens"]
    if turn.tokens_per_second:
        parts.append(f"{turn.tokens_per_second:.1f} tokens/s")
    if turn.acceptance_length:
        parts.append(f"acceptance length {turn.acceptance_length:.2f}")
    return "[" + ", ".join(parts) + "]"


def compare(
    endpoint: Endpoint,
    messages: list[dict[str, str]],
    style: Style,
    thinking_key: str | None,
    turn: Turn,
) -> None:
    """The same question to the same server, decoded plainly: token for token the same text."""
    _output.note("the same question without DFlash ...")
    plain = answer(
        endpoint, messages, style, thinking_key, shown=False, extra={"speculative": False}
    )
    if not turn.acceptance_length or plain.acceptance_length:
        _output.note("this server cannot decode plainly on request: only the embedded one can")
        return
    with_, without = turn.tokens_per_second, plain.tokens_per_second
    if not with_ or not without:
        _output.note("too short an answer to compare")
        return
    if style.temperature > 0:
        same = "sampled, so the texts may differ"
    elif plain.text == turn.text:
        same = "the same text"
    else:
        # log-probabilities take time, and are no part of what was timed
        again = answer(
            endpoint, messages, style, thinking_key, shown=False,
            extra={"speculative": False, "logprobs": True, "top_logprobs": MOST_TOLD},
        )  # fmt: skip
        same = apart(again, turn)
    _output.note(
        f"DFlash {with_:.1f} tokens/s, plain decoding {without:.1f}: {with_ / without:.2f} times as"
        f" fast, {same}"
    )


def apart(plain: Turn, turn: Turn) -> str:
    """What the first difference of two texts cost."""
    found = first_divergence(Answer(plain.text, plain.told), Answer(turn.text))
    if found is None or found.regret is None:
        return "ANOTHER TEXT, and nobody can tell what it cost"
    cost = f"{'at least ' if found.at_least else ''}{found.regret:.2g} nats"
    near = found.within(NEAR_TIE)
    return (
        f"another text from a near tie on, of {cost}" if near else f"ANOTHER TEXT: it cost {cost}"
    )
