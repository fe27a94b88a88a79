"""A streamed chat with any of the servers, over their OpenAI-compatible API."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from dflash_deploy.errors import LaunchError
from dflash_deploy.measure.connection import connect, message_of, refusal, unreachable
from dflash_deploy.measure.lossless import Token
from dflash_deploy.measure.told import tokens_of
from dflash_deploy.plan import Endpoint

if TYPE_CHECKING:
    import httpx

PATH = "/v1/chat/completions"


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


def stream_chat(endpoint: Endpoint, body: Mapping[str, Any]) -> Iterator[Delta]:
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
    for line in answer.iter_lines():
        data = line.removeprefix("data:").strip()
        if not line.startswith("data:") or not data:
            continue
        if data == "[DONE]":
            return
        yield parse_event(data)
    raise _broken("the answer has no end")


def parse_event(data: str) -> Delta:
    """One `data:` line. An error the server found after it had begun to answer is raised."""
    try:
        event = json.loads(data)
    except ValueError as error:
        raise _broken(f"not JSON: {data[:80]}") from error
    if not isinstance(event, dict):
        raise _broken(f"no part of an answer: {data[:80]}")
    if "error" in event:
        raise LaunchError(f"the server stopped answering: {message_of(data.encode())}")
    choice: dict[str, Any] = next(iter(event.get("choices") or ()), {})
    delta, usage = choice.get("delta") or {}, event.get("usage")
    return Delta(
        content=delta.get("content") or "",
        # both names are in use, sometimes in one answer
        reasoning=delta.get("reasoning_content") or delta.get("reasoning") or "",
        finish_reason=choice.get("finish_reason"),
        usage=Usage(usage["prompt_tokens"], usage["completion_tokens"]) if usage else None,
        metrics=event.get("metrics") or event.get("sglext"),
        tokens=tokens_of(choice),
    )


def _broken(why: str) -> LaunchError:
    hint = "ask again; what the server printed says why"
    return LaunchError(f"the answer broke off: {why}", hint=hint)
