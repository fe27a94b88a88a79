"""Log-probabilities in the shapes of OpenAI's two endpoints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dflash_deploy.speculative.types import Chance

TokenBytes = Callable[[int], bytes]


def of_chat(tokens: Sequence[int], chances: Sequence[Chance], spell: TokenBytes) -> dict[str, Any]:
    content = [
        _entry(token, chance.logprob, spell)
        | {"top_logprobs": [_entry(other, value, spell) for other, value in chance.top]}
        for token, chance in zip(tokens, chances, strict=True)
    ]
    return {"content": content}


def of_completion(
    tokens: Sequence[int], chances: Sequence[Chance], spell: TokenBytes
) -> dict[str, Any]:
    """Without `text_offset`: a token that is half a character begins nowhere in the text."""
    names = [_name(spell(token)) for token in tokens]
    return {
        "tokens": names,
        "token_logprobs": [chance.logprob for chance in chances],
        "top_logprobs": [
            # the chosen token is always there, also behind the likeliest
            {_name(spell(other)): value for other, value in chance.top} | {name: chance.logprob}
            for name, chance in zip(names, chances, strict=True)
        ],
    }


def _entry(token: int, logprob: float, spell: TokenBytes) -> dict[str, Any]:
    spelled = spell(token)
    text = spelled.decode(errors="replace")
    return {"token": text, "logprob": logprob, "bytes": list(spelled)}


def _name(spelled: bytes) -> str:
    """Keys have to differ: half a character is named by its bytes, as OpenAI does."""
    try:
        return spelled.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in spelled)
