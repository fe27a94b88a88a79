"""A streamed chat with any of the servers, over their OpenAI-compatible API."""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from dflash_deploy.errors import LaunchError
from dflash_deploy.measure.connection import (
    WORDS_ELSEWHERE,
    connect,
    message_of,
    refusal,
    unreachable,
)
from dflash_deploy.measure.lossless import Token
from dflash_deploy.measure.told import tokens_of
from dflash_deploy.plan import Endpoint

if TYPE_CHECKING:
    import httpx

PATH = "/v1/chat/completions"
_HALF = re.compile("[\ud800-\udfff]")


class Usage(msgspec.Struct, frozen=True):
    """As the server counts. Chunks are not tokens: speculation sends several in one."""

    prompt_tokens: int
    completion_tokens: int


class Delta(msgspec.Struct, frozen=True):
    """A piece of the answer; usage and metrics come with the last one."""

    content: str = ""
    reasoning: str = ""
    finish_reason: str | None = None
    usage: Usage | None = None
    metrics: dict[str, Any] | None = None
    """The engine's own report on this request: vLLM's `metrics`, SGLang's `sglext`."""
    tokens: tuple[Token, ...] = ()
    """With their log-probabilities, where these are asked for."""


def request_body(
    endpoint: Endpoint,
    messages: Sequence[Mapping[str, str]],
    *,
    max_tokens: int | None = None,
    temperature: float | None = None,
    template_kwargs: Mapping[str, object] | None = None,
    reasoning_effort: str | None = None,
    extra: Mapping[str, object] | None = None,
) -> dict[str, Any]:
    """The JSON of a request: what is None is left to the server."""
    optional = {
        "max_tokens": max_tokens,
        "temperature": temperature,
        "chat_template_kwargs": dict(template_kwargs) if template_kwargs else None,
        "reasoning_effort": reasoning_effort,
    }
    given = {name: value for name, value in optional.items() if value is not None}
    return {"model": endpoint.model, "messages": list(messages), **given, **(extra or {})}


def stream_chat(endpoint: Endpoint, body: Mapping[str, Any]) -> Generator[Delta, None, None]:
    """Stream the answer to a `request_body`; closing the iterator ends the request.

    Raises UsageError and LaunchError.
    """
    import httpx

    body = {**body, "stream": True, "stream_options": {"include_usage": True}}
    try:
        with (
            connect(endpoint, read_timeout=None) as client,
            client.stream("POST", PATH, json=body) as answer,
        ):
            if answer.status_code != httpx.codes.OK:
                answer.read()
                raise refusal(endpoint, answer)
            yield from _deltas(answer)
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise unreachable(endpoint, error) from error
    except httpx.HTTPError as error:
        raise _broken(str(error)) from error


def _deltas(answer: httpx.Response) -> Iterator[Delta]:
    first = ""
    for line in _lines(answer.iter_bytes()):
        data = line.removeprefix("data:").strip()
        first = first or line.strip()
        if not line.startswith("data:"):
            continue
        if data == "[DONE]":
            return
        if data:
            yield parse_event(data)
    raise _odd(first) if first.startswith(("<", "{")) else _broken("the answer has no end")


def _lines(pieces: Iterable[bytes]) -> Iterator[str]:
    """Ended by a line feed alone: a text may hold what else Unicode counts as an end of line."""
    held = b""
    for piece in pieces:
        *whole, held = (held + piece).split(b"\n")
        yield from (line.decode("utf-8", "replace") for line in whole)
    yield held.decode("utf-8", "replace")


def parse_event(data: str) -> Delta:
    """One `data:` line. An error the server found after it had begun to answer is raised."""
    try:
        event = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _broken(f"not JSON: {data[:80]}") from error
    if isinstance(event, dict) and "error" in event:
        said = message_of(data.encode()) or "it did not say why"
        raise LaunchError(f"the server stopped answering: {said}", hint=WORDS_ELSEWHERE)
    try:
        return _delta(event)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _odd(data) from error


def _delta(event: dict[str, Any]) -> Delta:
    """Any of the four errors of a look-up where the event is shaped otherwise."""
    choice: dict[str, Any] = next(iter(event.get("choices") or ()), {})
    delta, metrics = choice.get("delta") or {}, event.get("metrics") or event.get("sglext")
    return Delta(
        content=_text(delta.get("content")),
        # both names are in use, sometimes in one answer
        reasoning=_text(delta.get("reasoning_content") or delta.get("reasoning")),
        finish_reason=choice.get("finish_reason"),
        usage=msgspec.convert(event["usage"], Usage) if event.get("usage") else None,
        metrics=msgspec.convert(metrics, dict[str, Any] | None),
        tokens=tokens_of(choice),
    )


def _text(said: Any) -> str:
    return whole_characters(msgspec.convert(said or "", str))


def whole_characters(text: str) -> str:
    """JSON, and a command line, can hold half of one: no file, terminal or server takes that."""
    return _HALF.sub("\N{REPLACEMENT CHARACTER}", text)


def _odd(data: str) -> LaunchError:
    return _broken(f"no part of an answer: {data[:80]}")


def _broken(why: str) -> LaunchError:
    hint = "ask again; what the server printed says why"
    return LaunchError(f"the answer broke off: {why}", hint=hint)
