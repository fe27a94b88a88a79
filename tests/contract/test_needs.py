"""What the registry says that an option needs: the newest releases refuse it without."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from packaging.version import Version

from dflash_deploy.engine_schema import Wants
from dflash_deploy.flag_tables import Flag, flag_table
from dflash_deploy.hardware import parse
from dflash_deploy.plan import make_plan
from dflash_deploy.request import Request
from tests.contract.engine_cases import REGISTRY, RELEASES, TIMEOUT, Release, as_case, judge

pytestmark = TIMEOUT
NEWEST = (RELEASES[0], RELEASES[2])


def said(release: Release) -> Iterator[tuple[Wants, str, tuple[str, ...]]]:
    """Each option that needs another, with a word that its parser takes."""
    table = flag_table(release.engine, Version(release.version))
    assert table
    names = table.names()
    for need in REGISTRY.engines[release.engine].needs:
        for option in need.flags:
            flag, _, word = option.partition(" ")
            name, _, key = flag.partition(".")
            words = (name, json.dumps({key: "x"})) if key else (name, *word_for(names[name], word))
            yield need, option, words


def word_for(row: Flag, word: str) -> tuple[str, ...]:
    if row.takes == "none":
        return ()
    numbers = {"integer": "1", "size": "1", "number": "1", "object": "{}", "array": "[]"}
    return (word or next(iter(row.choices or []), numbers.get(str(row.kind), "0")),)


@pytest.mark.parametrize("release", NEWEST, ids=str)
def test_the_engine_refuses_it_or_does_not_read_it(release: Release) -> None:
    request = Request(model="qwen3-8b", engine=release.engine, engine_version=release.version)
    case = as_case("", "H100", make_plan(REGISTRY, request, parse("H100", REGISTRY.gpus)),
                   judge_config=True)  # fmt: skip
    messages: list[dict[str, Any]] = []
    ignored = {}
    for need, option, words in said(release):
        messages.append(case.message() | {"id": option, "argv": [*case.argv, *words]})
        ignored[option] = need.ignored
    verdicts = judge(release, messages)
    wrong = {
        option: each["message"]
        for option, each in verdicts.items()
        if each["ok"] != ignored[option]
    }
    assert wrong == {}
    assert len(verdicts) == len(ignored)
