"""What a fake engine answers in a chat, token by token, and how a faulty draft would bend it."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

WORDS = ("The", " quick", " brown", " fox", " jumps", " over", " the", " lazy", " dog", ".")
LIKELY, NEAR, FAR = -0.7, -0.72, -5.0
"""Log-probabilities of the word that is said, of SWIFT and of SLOW, in every place."""
SWIFT, SLOW, UNHEARD = " swift", " slow", " squid"
PLACE = 5
"""Where a bent answer leaves the plain one."""
EVEN, ODD = (0.5, 0.49, 0.01), (0.9, 0.09, 0.01)
"""How often the three words are drawn, as they should be and otherwise."""
BENDS = ("tie", "regret", "unheard", "loop", "sampling")


def tokens(count: int, body: Mapping[str, Any], bend: str | None) -> list[str]:
    """The words of an answer of so many tokens.

    `bend`: `tie` and `regret` say another word in one place, one that is as likely or far less;
    `unheard` one that is not among the likeliest; `loop` says one word from there on; `sampling`
    draws from another distribution.
    """
    if body.get("temperature"):
        return _drawn(count, body.get("seed"), ODD if bend == "sampling" else EVEN)
    said = [WORDS[place % len(WORDS)] for place in range(count)]
    other = {"tie": SWIFT, "loop": SWIFT, "regret": SLOW, "unheard": UNHEARD}.get(bend or "")
    if other is not None:
        said[PLACE : PLACE + 1] = [other][: len(said) - PLACE]
    if bend == "loop":
        said[PLACE:] = [SWIFT] * len(said[PLACE:])
    return said


def _drawn(count: int, seed: int | None, weights: Sequence[float]) -> list[str]:
    chance = random.Random(seed)
    bounds = list(accumulate(weights))
    return [
        chance.choices((WORDS[place % len(WORDS)], SWIFT, SLOW), cum_weights=bounds)[0]
        for place in range(count)
    ]


def logprobs(said: Sequence[str], top: int) -> dict[str, Any]:
    """OpenAI's shape for chat: each token, and the likeliest in its place."""
    return {"content": [_place(place, word, top) for place, word in enumerate(said)]}


def _place(place: int, word: str, top: int) -> dict[str, Any]:
    known = {WORDS[place % len(WORDS)]: LIKELY, SWIFT: NEAR, SLOW: FAR}
    likeliest = [_entry(other, value) for other, value in known.items()][:top]
    return _entry(word, known.get(word, -20.0)) | {"top_logprobs": likeliest}


def _entry(word: str, logprob: float) -> dict[str, Any]:
    return {"token": word, "logprob": logprob, "bytes": list(word.encode())}
