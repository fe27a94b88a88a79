"""An option that no plan takes is told, and the right command goes without it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

import pytest
from packaging.version import Version

from dflash_deploy.engine_schema import Check
from dflash_deploy.explain.report import reports
from dflash_deploy.explain.ruled import OF_CHECK, OF_THE_PAIR
from dflash_deploy.explain.shell import from_argv
from dflash_deploy.flag_faults import fault
from dflash_deploy.flag_tables import flag_table, parse, tables
from dflash_deploy.hardware import parse as cards
from dflash_deploy.plan import Plan
from tests.unit.explain.test_flags import PAIR, SGLANG

COMMANDS = {"vllm": PAIR.split(), "sglang": SGLANG.split()}


@pytest.mark.parametrize(
    ("command", "option", "verdict"),
    [
        (PAIR, "--gpu-memory-utilization 2", "wrong"),
        (PAIR, "--max-model-len 2", "wrong"),
        (PAIR, "--decode-context-parallel-size 2", "wrong"),
        (PAIR, "--no-enable-chunked-prefill", "wrong"),
        (PAIR, "--watermark-config 2", "wrong"),
        (PAIR, "--uds /tmp/socket", "note"),
        (PAIR, "--disable-log-stats", "note"),
        (SGLANG, "--attn-dp-size 2", "wrong"),
        (SGLANG, "--context-length 2", "wrong"),
        (SGLANG, "--grpc-mode", "note"),
    ],
)
def test_it_is_told_at_the_option(explain, command: str, option: str, verdict: str) -> None:
    report = explain(f"{command} {option}")
    assert {item.verdict for item in report.findings if item.part == option} == {verdict}
    assert isinstance(report.right, Plan)
    assert " ".join(option.split()) not in " ".join(report.right.argv)


def test_several_go_one_after_the_other(explain) -> None:
    report = explain(PAIR + "--gpu-memory-utilization 2 --max-model-len 2 --seed 3")
    wrong = [item.part for item in report.findings if item.verdict == "wrong"]
    assert wrong == ["--gpu-memory-utilization 2", "--max-model-len 2"]
    assert report.right_text.endswith("--seed 3")


def test_every_check_speaks_of_an_option_or_of_the_pair() -> None:
    assert OF_CHECK.keys() | OF_THE_PAIR == {*get_args(Check)}


def options(engine: str) -> Iterator[list[str]]:
    """Every switch of the newest release, and every option with a word that its parser takes."""
    for row in tables(engine)[-1].flags:
        if row.takes == "none" or row.choices:
            yield [row.name, *(row.choices or [])[-1:]]


@pytest.mark.parametrize("engine", COMMANDS)
def test_no_option_that_a_parser_takes_ends_it(shipped, engine: str) -> None:
    on = cards("H100:8", shipped.gpus)
    for words in options(engine):
        (report,) = reports(from_argv([*COMMANDS[engine], *words]), shipped, None, on)
        assert isinstance(report.right, Plan), (words, report.refused)
        verdicts = {(item.part, item.verdict) for item in report.findings}
        assert len(verdicts) == len({part for part, _ in verdicts}), words
        table = flag_table(engine, Version(report.right.version))
        given = parse(table, report.right.argv[2:])
        assert all(item.known and fault(item) is None for item in given), words
