"""Answers in pairs: how they compare, what that shows, and why a gate fails. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from math import comb

from dflash_deploy.measure.answers import right
from dflash_deploy.measure.gains import RESTS
from dflash_deploy.measure.judged import Judgement, compare, judge
from dflash_deploy.measure.lossless import Answer, combined, same_distribution
from dflash_deploy.measure.questions import Question
from dflash_deploy.measure.report import Setting
from dflash_deploy.measure.told import Said
from dflash_deploy.measure.verified import Accepted, Accuracy, Failing, Sampled, Verification

ALPHA = 0.01
"""How likely a lossless server is to fail by chance, for each test that has chance in it."""
FEWEST_ROUNDS, FIRST_ROUNDS = 999, 199
IN_DOUBT = 0.1
"""A p-value of the first rounds above it is none that more of them would bring below ALPHA."""

EMPTY = Answer("")
Pair = tuple[Question, Said, Said]
"""A question, plain decoding's answer and DFlash's."""


def pairs(
    questions: Sequence[Question], plain: Mapping[int, Said], dflash: Mapping[int, Said]
) -> list[Pair]:
    """What both answered, in the order of the questions, each known by its number."""
    return [
        (question, plain[number], dflash[number])
        for number, question in enumerate(questions)
        if number in plain and number in dflash
    ]


def judged(seen: Sequence[Pair], max_regret: float) -> Judgement:
    found = [
        compare(asked.prompt.text, ours.answer, theirs.answer) for asked, ours, theirs in seen
        if ours.answer != EMPTY or theirs.answer != EMPTY  # two that said nothing are no proof
    ]  # fmt: skip
    return judge(found, max_regret=max_regret)


def accuracy(seen: Sequence[Pair]) -> Accuracy | None:
    marks = [
        (right(ours.content, known), right(theirs.content, known))
        for asked, ours, theirs in seen
        if (known := asked.prompt.answer) is not None
    ]
    if not marks:
        return None
    lost, won = marks.count((True, False)), marks.count((False, True))
    return Accuracy(
        known=len(marks), plain=sum(ours for ours, _ in marks),
        dflash=sum(theirs for _, theirs in marks), lost=lost, won=won, p=sign_test(lost, won),
    )  # fmt: skip


def sign_test(lost: int, won: int) -> float:
    """The chance of `lost` heads or more where a coin decides all that differ (McNemar, exact)."""
    throws = lost + won
    return sum(comb(throws, heads) for heads in range(lost, throws + 1)) / (1 << throws)


def sampled(seen: Sequence[Pair], seed: int) -> tuple[Sampled, ...]:
    """One test a prompt, of which one alone can fail the gate.

    That takes more rounds the more prompts there are: at first each gets a few, then those in doubt
    as many as it takes, the least p-value first, until one of them decides.
    """
    by_prompt: dict[tuple[str, str], list[Pair]] = {}
    for pair in seen:
        if pair[1].answer != EMPTY or pair[2].answer != EMPTY:  # two that said nothing are no proof
            by_prompt.setdefault((pair[0].workload, pair[0].prompt.text), []).append(pair)
    several = [each for each in by_prompt.values() if len(each) > 1]
    found = [_tested(each, seed, FIRST_ROUNDS) for each in several]
    rounds = max(FEWEST_ROUNDS, math.ceil(4 * len(several) / ALPHA))
    for number in sorted(range(len(found)), key=lambda number: found[number].p):
        if found[number].p > IN_DOUBT:
            break
        found[number] = _tested(several[number], seed, rounds)
        if combined([each.p for each in found]) < ALPHA:
            break
    return tuple(found)


def _tested(pairs: Sequence[Pair], seed: int, rounds: int) -> Sampled:
    asked = pairs[0][0]
    p = same_distribution(
        [_first_tokens(ours) for _, ours, _ in pairs],
        [_first_tokens(theirs) for _, _, theirs in pairs],
        seed=seed, rounds=rounds,
    )  # fmt: skip
    return Sampled(asked.workload, asked.prompt.text, len(pairs), len(pairs), p)


def _first_tokens(said: Said) -> list[str]:
    """Words, from a server that does not tell its tokens."""
    return [token.text for token in said.answer.tokens] or said.answer.text.split()


def together(found: Sequence[Sampled]) -> float | None:
    return combined([each.p for each in found]) if found else None


def failing(
    judgement: Judgement | None, right_ones: Accuracy | None, p: float | None,
    accepted: Accepted | None, max_regret: float,
) -> Iterator[Failing]:  # fmt: skip
    """Every reason for the gate to fail, the ones that void the comparison first."""
    if accepted and accepted.plain_drafts:
        yield Failing("plain_drafts", "the plain server drafts as well: nothing plain was compared")
    if accepted and accepted.drafts is not None and accepted.drafts <= 0:
        yield Failing("nothing_drafted", "nothing was drafted: plain decoding against itself")
    elif accepted and (accepted.undrafted or 0.0) >= RESTS:
        yield Failing(
            "nothing_drafted",
            f"{accepted.undrafted:.0%} of the tokens came without a draft: plain decoding"
            " against itself",
        )
    if accepted and accepted.drafts is None and accepted.length is None:
        yield Failing(
            "unseen",
            "nobody says whether anything was drafted: no draft is loaded, or metrics are off",
        )
    if p is None and (judgement is None or judgement.prompts == 0):
        yield Failing("nothing_compared", "no prompt was answered by both")
    if judgement is not None:
        yield from _diverging(judgement, max_regret)
    if right_ones is not None and right_ones.p < ALPHA:
        yield Failing(
            "worse_answers",
            f"{right_ones.lost} right answers of plain decoding are wrong with DFlash, and"
            f" {right_ones.won} the other way round (p = {right_ones.p:.2g})",
        )
    if p is not None and p < ALPHA:
        yield Failing("other_distribution", f"the samples are of two distributions (p = {p:.2g})")


def _diverging(found: Judgement, max_regret: float) -> Iterator[Failing]:
    if found.costly:
        worst = max(one.divergence.regret or 0 for one in found.costly if one.divergence)
        yield Failing(
            "costly",
            f"{len(found.costly)} of {found.prompts} answers leave plain decoding's where the"
            f" target was not in doubt: by {worst:.2g} nats, {max_regret:g} pass",
        )
    if found.untold:
        yield Failing(
            "untold",
            f"{len(found.untold)} of {found.prompts} answers leave plain decoding's, and its"
            " server does not tell what that cost",
        )
    if found.loops:
        yield Failing(
            "loops",
            f"{len(found.loops)} of {found.prompts} answers go round in circles, and plain"
            " decoding's do not",
        )


def verification(
    before: Setting, seen: Sequence[Pair], accepted: Accepted, *, questions: int, max_regret: float,
    complete: bool,
) -> Verification:  # fmt: skip
    """Everything that the pairs show; an incomplete one never passes."""
    sampling = before.temperature > 0
    judgement = None if sampling else judged(seen, max_regret)
    right_ones = None if sampling else accuracy(seen)
    samples = sampled(seen, before.seed) if sampling else ()
    p = together(samples)
    # what was cut off has no counters
    known = accepted if complete else None
    why = tuple(failing(judgement, right_ones, p, known, max_regret))
    return Verification(
        **before.setting,
        max_regret=max_regret, questions=questions, compared=len(seen), judgement=judgement,
        accuracy=right_ones, sampled=samples, same_distribution=p, acceptance=accepted,
        complete=complete, passed=complete and not why, failing=why,
    )  # fmt: skip
