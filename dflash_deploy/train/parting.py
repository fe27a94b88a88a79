"""Where a draft's answer parts from plain decoding's, when one process decodes both."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import zip_longest

from dflash_deploy.measure.lossless import Answer, Divergence, Token, first_divergence
from dflash_deploy.measure.questions import MOST_TOLD
from dflash_deploy.speculative.types import Chance, Decoder, Sampling, Step


def parting(
    decoder: Decoder, prompt: Sequence[int], sampling: Sampling, drafted: Iterable[Step]
) -> Divergence | None:
    """The first difference of a greedy answer from plain decoding, which is asked here."""
    told = replace(sampling, logprobs=MOST_TOLD)
    plain = decoder.generate(prompt, told, speculate=False)
    return first_divergence(answer_of(plain), answer_of(drafted))


def answer_of(steps: Iterable[Step]) -> Answer:
    """As `lossless` compares it. A token's id is its name: two tokens may have one text."""
    tokens = [
        _token(token, chance)
        for step in steps
        for token, chance in zip_longest(step.tokens, step.chances)
    ]
    return Answer(" ".join(token.text for token in tokens), tuple(tokens))


def _token(token: int, chance: Chance | None) -> Token:
    if chance is None:
        return Token(str(token), math.nan)
    top = {str(other): logprob for other, logprob in chance.top}
    return Token(str(token), chance.logprob, {**top, str(token): chance.logprob})
