"""Every refusal of the registry: the engine refuses the same command, or its source says why."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from dflash_deploy.engine_schema import Rule
from dflash_deploy.errors import DFlashError
from dflash_deploy.schema import EngineName
from tests.contract.engine_cases import ENGINES, REGISTRY, RELEASES, TIMEOUT, Judged, engine_env
from tests.contract.refusals import Refused, changed, plan_of
from tests.contract.refused_commands import REFUSED

pytestmark = TIMEOUT
ISSUE = re.compile(r"[\w.-]+/[\w.-]+#\d+")
LINE = re.compile(r"(vLLM|SGLang) (\d[\w.]*) ([\w/.]+\.py):(\d+) `([^`]+)`")
ELSEWHERE = {
    ("sglang", "speculators-layout"): "test_draft_layouts.py",
    ("sglang", "text-config-override"): "test_stretched_context.py",
}
"""Refusals that the engine makes where it reads a config.json, not a command: tests of their own."""


class Line(NamedTuple):
    """A line of a release's source that a rule or need rests on, and words that stand in it."""

    engine: str
    version: str
    path: str
    number: int
    words: str


def refusals() -> Iterator[tuple[EngineName, Rule]]:
    for engine in ENGINES:
        for rule in REGISTRY.engines[engine].rules:
            if rule.severity == "refuse":
                yield engine, rule


def lines() -> list[Line]:
    sources = [rule.source for _, rule in refusals()]
    sources += [need.source for name in ENGINES for need in REGISTRY.engines[name].needs]
    found = map(LINE.findall, sources)
    said = {Line(name.lower(), version, path, int(number), words)
            for each in found for name, version, path, number, words in each}  # fmt: skip
    return sorted(said)


def test_the_engine_rejects_what_the_rules_refuse(judged: Judged) -> None:
    release, verdicts = judged
    wrong = {
        str(case): verdicts[str(case)]
        for case in REFUSED
        if case.release == release and case.says not in verdicts[str(case)]["message"]
    }
    assert not wrong, json.dumps(wrong, indent=1)


@pytest.mark.parametrize("case", [case for case in REFUSED if case.rule], ids=str)
def test_the_rules_refuse_it(case: Refused) -> None:
    rules = {rule.id: rule.message for rule in REGISTRY.engines[case.release.engine].rules}
    named = str(case.rule)
    with pytest.raises(DFlashError) as refusal:
        plan_of(case, case.release.version, changed(case))
    assert rules.get(named, named) in refusal.value.message


def test_no_two_refusals_share_a_name() -> None:
    assert Counter(map(str, REFUSED)).most_common(1)[0][1] == 1


def test_every_refusal_has_a_ground() -> None:
    """A command that the engine refuses too, a line of its source, or an issue."""
    judged = {(case.release.engine, case.rule) for case in REFUSED} | ELSEWHERE.keys()
    groundless = [
        f"{engine}: {rule.id}: {rule.source}"
        for engine, rule in refusals()
        if (engine, rule.id) not in judged
        and not ISSUE.search(rule.source)
        and not LINE.search(rule.source)
    ]
    assert not groundless, "\n".join(groundless)


@pytest.mark.parametrize(("named", "file"), ELSEWHERE.items(), ids=str)
def test_a_refusal_tested_elsewhere_is_named_there(named: tuple[str, str], file: str) -> None:
    assert f"`{named[1]}`" in (Path(__file__).parent / file).read_text(encoding="utf-8")
    assert named in {(engine, rule.id) for engine, rule in refusals()}


def checkable() -> list[Line]:
    """Of the releases that are judged, and of others whose source is at hand already."""
    at_hand = engine_env().at_hand
    return [x for x in lines() if (x.engine, x.version) in RELEASES or at_hand(*x[:2])]


@pytest.mark.parametrize("line", checkable(), ids=lambda line: f"{line.version}-{line.path}")
def test_the_line_is_what_the_source_says(line: Line) -> None:
    environments = engine_env()
    sources = environments.environment(line.engine, line.version).sources / line.engine
    text = (sources / line.path).read_text(encoding="utf-8").splitlines()
    assert line.words in text[line.number - 1]
