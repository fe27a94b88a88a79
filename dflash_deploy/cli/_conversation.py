"""The conversation of `dflash chat`: with whom, its turns, and what of them the context holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from dflash_deploy.cli import _output
from dflash_deploy.cli._compared import compare
from dflash_deploy.cli._one_answer import STOPPED, Style, Turn, answer, in_words
from dflash_deploy.cli._options import api_key_env
from dflash_deploy.cli._planning import Wanted
from dflash_deploy.cli._questions import questions, typed
from dflash_deploy.errors import ContextFull, DFlashError, UnknownModel, UsageError
from dflash_deploy.measure.client import whole_characters
from dflash_deploy.measure.connection import served_models
from dflash_deploy.plan import Endpoint
from dflash_deploy.registry import load

Messages = list[dict[str, str]]


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
            converse(endpoint_of(plan), style, thinking_key=plan.thinking_key, ours=True)


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


def converse(
    endpoint: Endpoint, style: Style, *, thinking_key: str | None, ours: bool = False
) -> None:
    """One question, or turns until end of input; the conversation so far goes with each.

    `ours`: the server is there for this conversation, which ends with it.
    """
    if style.ask is not None and not style.ask.strip():
        raise UsageError("--ask without a question", hint="leave --ask out to be asked")
    watched = style.ask is None and typed()
    talk: Messages = []
    for question in questions() if style.ask is None else [whole_characters(style.ask)]:
        asked = [*talk, {"role": "user", "content": question}]
        try:
            talk = answered(endpoint, asked, style, thinking_key, watched=watched)
        except DFlashError as error:
            # somebody sits there who can ask for less, or again once the server is back
            if not watched or (ours and not isinstance(error, UsageError)):
                raise
            _output.error(error, as_json=False)
        except KeyboardInterrupt:
            if not watched:
                raise
            _output.note("\n[stopped before an answer: the question is left out]")


def answered(
    endpoint: Endpoint, asked: Messages, style: Style, thinking_key: str | None, *, watched: bool
) -> Messages:
    """The conversation with the answer to its last question.

    `watched`: somebody sits there, and ends an answer with a Ctrl-C.
    """
    kept, style, turn = fitting(endpoint, asked, style, thinking_key, stoppable=watched)
    _output.note(in_words(turn, style.max_tokens))
    if left := (len(asked) - len(kept)) // 2:
        turns = f"{left} oldest turns are" if left > 1 else "oldest turn is"
        _output.note(f"[the context is full: the {turns} left out from here on]")
    if style.compare and turn.ended != STOPPED:
        try:
            compare(endpoint, kept, style, thinking_key, turn)
        except KeyboardInterrupt:
            if not watched:
                raise
            _output.note("\n[stopped]")
    return [*kept, {"role": "assistant", "content": turn.text}]


def fitting(
    endpoint: Endpoint, asked: Messages, style: Style, thinking_key: str | None, *, stoppable: bool
) -> tuple[Messages, Style, Turn]:
    """The first answer that the context has room for, with what was asked for it, and how.

    Raises ContextFull if there is room for none.
    """
    for kept, longest in shorter(asked, style.max_tokens):
        tried = replace(style, max_tokens=longest)
        try:
            turn = answer(endpoint, kept, tried, thinking_key, stoppable=stoppable)
        except ContextFull as error:
            refused = error
        else:
            return kept, tried, turn
    raise refused


def shorter(asked: Messages, longest: int | None) -> Iterator[tuple[Messages, int | None]]:
    """What to ask in turn until the context has room, and for how long an answer.

    As the page does it: rather an answer with what room is left than one that forgets more.
    """
    for begin in range(0, len(asked), 2):
        yield asked[begin:], longest
        if longest is not None:
            yield asked[begin:], None
