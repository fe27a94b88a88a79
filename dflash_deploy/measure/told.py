"""A server's whole chat answer with log-probabilities, as `lossless` compares it. Pure.

vLLM, SGLang and the embedded server give OpenAI's shape. Tokens are known by their bytes: two
halves of different characters have one and the same text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from dflash_deploy.measure.lossless import Answer, Token
from dflash_deploy.measure.sample import Cycles
from dflash_deploy.measure.stream import reported


class Said(msgspec.Struct, frozen=True):
    """An answer, what of it is no thought, and the engine's report on its speculation."""

    answer: Answer
    content: str
    cycles: Cycles | None = None


def said_of(response: Mapping[str, Any]) -> Said:
    message = response["choices"][0]["message"]
    cycles = reported(response.get("metrics"), response.get("sglext"))
    return Said(answer_of(response), message.get("content") or "", cycles)


def answer_of(response: Mapping[str, Any]) -> Answer:
    """Of the first choice; without tokens where the server told no log-probabilities."""
    choice = response["choices"][0]
    message = choice["message"]
    # a model that thinks says so in a field of its own, and what it thinks has to be the same too
    thought = message.get("reasoning_content") or message.get("reasoning") or ""
    return Answer(thought + (message.get("content") or ""), tokens_of(choice))


def tokens_of(choice: Mapping[str, Any]) -> tuple[Token, ...]:
    """Of a whole answer, or of a piece of one that is streamed."""
    return tuple(map(_token, (choice.get("logprobs") or {}).get("content") or ()))


def _token(entry: Mapping[str, Any]) -> Token:
    top = {name(other): other["logprob"] for other in entry.get("top_logprobs") or ()}
    chosen = name(entry)
    # the chosen token is not always among the likeliest told
    return Token(chosen, entry["logprob"], {**top, chosen: entry["logprob"]} if top else {})


def name(entry: Mapping[str, Any]) -> str:
    """A token's text, with each byte that is no character spelled out, so that names differ."""
    spelled: Sequence[int] | None = entry.get("bytes")
    if spelled is None:
        return str(entry["token"])
    return bytes(spelled).decode(errors="backslashreplace")
