"""Request bodies: JSON to frozen values, each refusal naming its parameter.

Unknown fields are ignored, as OpenAI and vLLM do. The fields in `REFUSED` are known, would change
the answer and are not built here: any value but their neutral one is refused, never ignored.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from dflash_deploy.server.api_error import ApiError, invalid, unsupported

# Field -> the values that ask for nothing. null, false, "", [] and {} never do.
REFUSED: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "prompt_logprobs": (),
    "tools": (),
    "tool_choice": ("none",),
    "functions": (),
    "function_call": ("none",),
    "response_format": ({"type": "text"},),
    "structured_outputs": (),
    "guided_json": (),
    "guided_regex": (),
    "guided_choice": (),
    "guided_grammar": (),
    "logit_bias": (),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "repetition_penalty": (1,),
    "min_p": (0,),
    "min_tokens": (0,),
    "echo": (),
    "suffix": (),
    "modalities": (["text"],),
    "audio": (),
    "web_search_options": (),
    "use_beam_search": (),
    "continue_final_message": (),
}

Whole = Annotated[int, Meta(ge=1)]
Alternatives = Annotated[int, Meta(ge=0, le=20)]
# torch seeds a generator with 64 bits
Seed = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
StopList = Annotated[list[Annotated[str, Meta(min_length=1)]], Meta(max_length=16)]


class StreamOptions(Struct, frozen=True):
    include_usage: bool | None = None
    # This server's own: tell each step, and which of its text the draft proposed.
    include_dflash: bool | None = None


class Body(Struct, frozen=True, kw_only=True):
    """What both endpoints take; null means the default."""

    model: str
    max_tokens: Whole | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    top_k: Annotated[int, Meta(ge=-1, le=2**31 - 1)] | None = None
    seed: Seed | None = None
    stop: Annotated[str, Meta(min_length=1)] | StopList | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    return_token_ids: bool | None = None
    # This server's own: false decodes plainly, so that a client can measure both on one server.
    speculative: bool | None = None

    @property
    def alternatives(self) -> int | None:
        """How many of the likeliest tokens to tell in each place; None: no log-probabilities."""
        return None

    @property
    def stops(self) -> tuple[str, ...]:
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    @property
    def include_usage(self) -> bool:
        return self.stream_options is not None and bool(self.stream_options.include_usage)

    @property
    def include_dflash(self) -> bool:
        return self.stream_options is not None and bool(self.stream_options.include_dflash)


class Part(Struct, frozen=True):
    type: str
    text: str = ""


class Message(Struct, frozen=True):
    role: str
    content: str | list[Part] | None = None
    name: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[Any] | None = None


class ChatBody(Body, frozen=True, kw_only=True):
    messages: Annotated[list[Message], Meta(min_length=1)]
    max_completion_tokens: Whole | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    reasoning_effort: str | None = None
    logprobs: bool | None = None
    top_logprobs: Alternatives | None = None

    @property
    def alternatives(self) -> int | None:
        return (self.top_logprobs or 0) if self.logprobs else None


class CompletionBody(Body, frozen=True, kw_only=True):
    """`prompt` is a text, a list of token ids, or a list that holds one of either."""

    prompt: Any
    logprobs: Alternatives | None = None

    @property
    def alternatives(self) -> int | None:
        return self.logprobs


T = TypeVar("T", bound=Body)


def parse_chat(body: bytes) -> ChatBody:
    chat = _convert(_json_object(body), ChatBody)
    if chat.top_logprobs and not chat.logprobs:
        raise invalid("`top_logprobs` has a meaning only with `logprobs: true`", "top_logprobs")
    return chat


def parse_completion(body: bytes) -> CompletionBody:
    return _convert(_json_object(body), CompletionBody)


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise invalid(f"the body is not JSON: {error}", None, "invalid_json") from None
    if not isinstance(value, dict):
        raise invalid("the body is not a JSON object", None, "invalid_json")
    for name, neutral in REFUSED.items():
        if not _asks_nothing(value.get(name), neutral):
            raise unsupported(f"`{name}` is not supported by this server", name)
    return value


def _asks_nothing(value: Any, neutral: tuple[Any, ...]) -> bool:
    return value is None or value is False or value in ("", [], {}) or value in neutral


def _convert(value: dict[str, Any], shape: type[T]) -> T:
    try:
        body = msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        raise _wrong_value(str(error)) from None
    if body.stream_options is not None and not body.stream:
        raise invalid("`stream_options` has a meaning only with `stream: true`", "stream_options")
    return body


def _wrong_value(message: str) -> ApiError:
    """Read msgspec's `<what> - at `$.path``, or `... missing required field `x` - at `$.path``."""
    what, _, where = message.partition(" - at ")
    path = where.strip("`").removeprefix("$").removeprefix(".")
    if missing := _MISSING.search(what):
        path = f"{path}.{missing[1]}" if path else missing[1]
        return invalid(f"`{path}` is missing", path, "missing_required_parameter")
    return invalid(f"`{path}`: {what[:1].lower()}{what[1:]}", path, "invalid_value")


_MISSING = re.compile(r"missing required field `(\w+)`")
