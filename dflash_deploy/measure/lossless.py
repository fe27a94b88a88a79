"""Is it lossless here? Plain answers beside DFlash's, token by token. Pure.

Speculative decoding keeps the target's own distribution, so that at temperature 0 both texts are
the same, but for near ties: a verification pass sums in another order than plain decoding, and two
tokens within rounding of each other may change places. What a divergence cost tells the two apart:
its *regret* is the target's log-probability of the token that plain decoding took, less that of
the token DFlash took in its place, behind the same prefix.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence

import msgspec

NEAR_TIE = 0.5
"""Nats. bf16 logits of size 20 are rounded by 0.08; six times that is no rounding."""
BETWEEN_SUMS = {"float32": 1e-3, "bfloat16": 0.25, "int8": 0.0}
"""Nats that two orders of a sum differ by at most, where the type of all numbers is known."""
REPEATED = 16
"""A phrase that stands so often in a row at an answer's end is a loop."""
LONGEST_PHRASE = 32
ENOUGH = 50
"""Of a permutation test: so many that are as far apart by chance are no sign of a difference."""


class Token(msgspec.Struct, frozen=True):
    """One token of an answer, as the server names it, and what else it might have been."""

    text: str
    logprob: float
    top: dict[str, float] = {}
    """The likeliest tokens in its place and their log-probabilities, itself among them."""


class Answer(msgspec.Struct, frozen=True):
    text: str
    tokens: tuple[Token, ...] = ()
    """Empty where the server gives no log-probabilities: then texts alone are compared."""


class Divergence(msgspec.Struct, frozen=True):
    """The first place where two answers to one prompt differ."""

    position: int
    """Tokens they share; characters, where tokens are not known."""
    plain: str
    """What plain decoding said there; empty: it had ended."""
    dflash: str
    regret: float | None
    """Nats, by the plain server; None: nobody can tell."""
    at_least: bool = False
    """DFlash's token was not among the likeliest that were told, and costs no less than these."""

    def within(self, most: float) -> bool | None:
        """Whether it costs no more than so many nats; None: nobody can tell."""
        if self.regret is None or (self.at_least and self.regret <= most):
            return None
        return self.regret <= most


def first_divergence(plain: Answer, dflash: Answer) -> Divergence | None:
    """None: the answers are the same."""
    if not plain.tokens:
        return _in_text(plain.text, dflash.text)
    if not dflash.tokens:
        return _along(plain, dflash.text)
    for position, (ours, theirs) in enumerate(zip(plain.tokens, dflash.tokens, strict=False)):
        if ours.text != theirs.text:
            return _at_token(position, ours, theirs.text)
    shorter = min(len(plain.tokens), len(dflash.tokens))
    if len(plain.tokens) == len(dflash.tokens):
        return None
    # one of them ended, on a server that does not tell the token that ends an answer: one that
    # does, as the embedded server, has it differ above, with what it cost
    longer = (plain.tokens + dflash.tokens[len(plain.tokens) :])[shorter]
    ended = len(plain.tokens) == shorter
    return Divergence(shorter, *(("", longer.text) if ended else (longer.text, "")), None)


def _at_token(position: int, plain: Token, taken: str) -> Divergence:
    cost = regret(plain, taken)
    unheard = cost is not None and taken not in plain.top
    return Divergence(position, plain.text, taken, cost, at_least=unheard)


def _along(plain: Answer, dflash: str) -> Divergence | None:
    """Plain decoding's tokens against a text whose own are not told.

    Where the texts part, the longest of the likeliest tokens that fits was taken. Tokens that the
    text leaves out, as those around a thought, leave nothing but the texts to compare.
    """
    seen = _in_text(plain.text, dflash)
    if seen is None:
        return None
    at = 0
    for position, token in enumerate(plain.tokens):
        if not dflash.startswith(token.text, at):
            shown = plain.text.startswith(token.text, at) or at == len(plain.text)
            fitting = [other for other in token.top if other and dflash.startswith(other, at)]
            if shown and fitting:
                return _at_token(position, token, max(fitting, key=len))
            break
        at += len(token.text)
    return seen


def _in_text(plain: str, dflash: str) -> Divergence | None:
    if plain == dflash:
        return None
    shared = next((i for i, (a, b) in enumerate(zip(plain, dflash, strict=False)) if a != b),
                  min(len(plain), len(dflash)))  # fmt: skip
    return Divergence(shared, plain[shared : shared + 8], dflash[shared : shared + 8], None)


def regret(plain: Token, taken: str) -> float | None:
    """What the other token costs, in nats, by plain decoding's own log-probabilities.

    Of a token that is not among the likeliest, no more is known than that it is behind them.
    """
    if taken in plain.top:
        return max(0.0, plain.logprob - plain.top[taken])
    if not plain.top:
        return None
    return max(0.0, plain.logprob - min(plain.top.values()))


def loops(text: str) -> bool:
    """Whether an answer ends in one phrase over and over: a model that has lost its way."""
    words = text.split()
    return any(
        len(words) >= size * REPEATED
        and len(set(map(tuple, _pieces(words[-size * REPEATED :], size)))) == 1
        for size in range(1, LONGEST_PHRASE + 1)
    )


def _pieces(words: Sequence[str], size: int) -> list[Sequence[str]]:
    return [words[at : at + size] for at in range(0, len(words), size)]


def same_distribution(
    plain: Sequence[Sequence[str]], dflash: Sequence[Sequence[str]], *, seed: int, rounds: int = 999
) -> float:
    """A p-value: may both samples of answers to one prompt come from one distribution?

    Each answer is its first tokens. The statistic is Pearson's chi-squared of the token counts at
    each place, summed over places; its distribution is had by giving the answers new owners at
    random (a permutation test: exact whatever the vocabulary, Phipson and Smyth 2010 for the +1).
    It ends early where nothing is to be found (Besag and Clifford 1991).
    """
    chance = random.Random(seed)  # noqa: S311 - a test, no secret
    together = [*map(tuple, plain), *map(tuple, dflash)]
    seen = _statistic(together[: len(plain)], together[len(plain) :])
    as_far = 0
    for done in range(1, rounds + 1):
        chance.shuffle(together)
        # sums of the same terms in another order differ in their last bits
        as_far += _statistic(together[: len(plain)], together[len(plain) :]) >= seen - 1e-9
        if as_far == ENOUGH:
            return as_far / done
    return (1 + as_far) / (1 + rounds)


def _statistic(ours: Sequence[tuple[str, ...]], theirs: Sequence[tuple[str, ...]]) -> float:
    places = max((len(answer) for answer in (*ours, *theirs)), default=0)
    return math.fsum(_chi_squared(_at(ours, place), _at(theirs, place)) for place in range(places))


def _at(answers: Sequence[tuple[str, ...]], place: int) -> Counter[str | None]:
    """How often each token stands at a place; None: the answer had ended."""
    return Counter(answer[place] if place < len(answer) else None for answer in answers)


def _chi_squared(ours: Counter[str | None], theirs: Counter[str | None]) -> float:
    """Of two rows of counts (Numerical Recipes, section 14.3: samples of unequal size)."""
    a, b = ours.total(), theirs.total()
    if not a or not b:
        return 0.0
    return math.fsum(
        (math.sqrt(b / a) * ours[token] - math.sqrt(a / b) * theirs[token]) ** 2
        / (ours[token] + theirs[token])
        for token in ours.keys() | theirs.keys()
    )


def combined(p_values: Sequence[float]) -> float:
    """One p-value of several: the least of them times their number (Bonferroni)."""
    return min(1.0, min(p_values) * len(p_values)) if p_values else 1.0
