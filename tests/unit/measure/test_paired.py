"""Pairs of answers: their accuracy, the test of samples, and why a gate fails."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_deploy.measure import paired
from dflash_deploy.measure.asks import Task
from dflash_deploy.measure.judged import Judgement, compare, judge
from dflash_deploy.measure.lossless import Answer, Token, same_distribution
from dflash_deploy.measure.paired import accuracy, failing, pairs, sampled, sign_test, together
from dflash_deploy.measure.prompts import Prompt
from dflash_deploy.measure.questions import SAMPLED_TOKENS, Question, questions
from dflash_deploy.measure.report import Workload
from dflash_deploy.measure.sample import Counted
from dflash_deploy.measure.told import Said
from dflash_deploy.measure.verified import Accepted, Accuracy
from dflash_deploy.measure.while_asked import accepted_in


def asked(text: str = "?", answer: str | None = None, draw: int = 0) -> Question:
    return Question("chat", Prompt(text, "chat", answer), 24, draw)


def said(text: str) -> Said:
    tokens = tuple(Token(word, -0.1, {word: -0.1}) for word in text.split())
    return Said(Answer(text, tokens), text)


GOOD = judge([compare("?", said("a b").answer, said("a b").answer)])
DRAFTED = Accepted(length=2.0, drafts=9.0, plain_drafts=None, source="counters")


def reasons(
    judgement: Judgement | None = GOOD, right: Accuracy | None = None, p: float | None = None,
    accepted: Accepted = DRAFTED,
) -> list[str]:  # fmt: skip
    return [each.reason for each in failing(judgement, right, p, accepted, 0.5)]


def test_pairs_are_what_both_answered():
    both = pairs([asked("1"), asked("2"), asked("3")], {0: said("a"), 2: said("c")}, {2: said("c")})
    assert [question.prompt.text for question, _, _ in both] == ["3"]


def test_right_answers_are_counted_and_those_that_changed():
    found = accuracy([
        (asked(answer="4"), said("it is 4"), said("it is 5")),
        (asked(answer="7"), said("it is 7"), said("it is 7")),
        (asked(answer="9"), said("none"), said("9")),
        (asked(), said("x"), said("y")),
    ])  # fmt: skip
    assert (found.known, found.plain, found.dflash, found.lost, found.won) == (3, 2, 2, 1, 1)
    assert accuracy([(asked(), said("x"), said("x"))]) is None


def test_a_few_answers_lost_are_chance_and_many_are_not():
    assert (sign_test(0, 0), sign_test(1, 1), sign_test(7, 0)) == (1.0, 0.75, 1 / 128)


@given(st.integers(0, 60), st.integers(0, 60))
def test_a_chance_is_one(lost, won):
    assert 0 < sign_test(lost, won) <= 1


def drawn(chance: random.Random, weights: tuple[float, float], prompts: int) -> list[Said]:
    return [said(" ".join(chance.choices("ab", weights, k=4))) for _ in range(prompts * 20)]


@pytest.mark.parametrize(("weights", "fails"), [((1, 1), False), ((1, 9), True)])
def test_samples_of_many_prompts_can_fail_the_gate(weights, fails):
    chance = random.Random(5)
    every = [asked(str(number), draw=draw) for number in range(12) for draw in range(20)]
    seen = list(zip(every, drawn(chance, (1, 1), 12), drawn(chance, weights, 12), strict=True))
    found = sampled(seen, seed=0)
    assert [(each.prompt, each.plain) for each in found[:2]] == [("0", 20), ("1", 20)]
    assert ("other_distribution" in reasons(None, p=together(found))) == fails


def test_a_server_that_is_wrong_everywhere_is_told_after_a_few_rounds_of_most_prompts(monkeypatch):
    asked_for = []

    def counting(*given, rounds, **options):
        asked_for.append(rounds)
        return same_distribution(*given, rounds=rounds, **options)

    monkeypatch.setattr(paired, "same_distribution", counting)
    every = [asked(str(number), draw=draw) for number in range(12) for draw in range(20)]
    seen = [(question, said("a b"), said("b a")) for question in every]
    assert reasons(None, p=together(sampled(seen, seed=0))) == ["other_distribution"]
    assert len(asked_for) == 13
    assert sum(asked_for) < 2 * max(asked_for)


def test_samples_without_a_word_are_of_no_distribution():
    seen = [(asked(draw=draw), said(""), said("")) for draw in range(8)]
    assert sampled(seen, seed=0) == ()
    assert reasons(None, p=together(sampled(seen, seed=0))) == ["nothing_compared"]


def test_a_server_that_drafted_nothing_proves_nothing():
    assert reasons() == []
    idle = Accepted(length=None, drafts=0.0, plain_drafts=None, source="counters")
    assert reasons(accepted=idle) == ["nothing_drafted"]
    rests = accepted_in([], Counted(drafts=5, draft_tokens=35, accepted=15), None, None, tokens=512)
    assert rests.undrafted == pytest.approx(0.96, abs=0.01)
    assert reasons(accepted=rests) == ["nothing_drafted"]
    for tokens in (60, 15, 0):  # a tail of some requests; a cycle that is cut; nobody tells
        some = accepted_in([], Counted(drafts=5, draft_tokens=35, accepted=15), None, None,
                           tokens=tokens)  # fmt: skip
        assert reasons(accepted=some) == []
    busy = Accepted(length=2.0, drafts=9.0, plain_drafts=9.0, source="counters")
    assert reasons(accepted=busy) == ["plain_drafts"]
    unseen = Accepted(length=None, drafts=None, plain_drafts=None, source="no counters")
    assert reasons(accepted=unseen) == ["unseen"]


def test_what_fails_has_a_name_and_a_sentence():
    parted = judge([compare("?", said("a b").answer, said("a c").answer)])
    loops = judge([compare("?", said("a").answer, said("so " * 40).answer)])
    worse = Accuracy(known=20, plain=20, dflash=10, lost=10, won=0, p=0.001)
    assert reasons(parted) == ["untold"]
    assert "loops" in reasons(loops)
    assert reasons(right=worse) == ["worse_answers"]
    assert reasons(judge([])) == ["nothing_compared"]


def test_a_prompt_is_asked_once_or_as_often_as_it_is_sampled():
    workload = Workload(name="chat", source="", sha256="", prompts=2, max_tokens=99)
    task = Task(workload, (Prompt("1", "chat"), Prompt("2", "chat")))
    once, often = questions([task], None), questions([task], 3)
    assert [(each.prompt.text, each.draw) for each in once] == [("1", 0), ("2", 0)]
    assert [each.draw for each in often] == [0, 1, 2] * 2
    assert often[0].max_tokens == SAMPLED_TOKENS < once[0].max_tokens
