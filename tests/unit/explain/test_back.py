"""Every right command, read back: the rules take it for the same cards and release."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dflash_deploy.explain.read import Command, read
from dflash_deploy.explain.report import Report, reports
from dflash_deploy.explain.serving import serving
from dflash_deploy.explain.shell import from_text
from dflash_deploy.hardware import parse as cards
from dflash_deploy.plan import Plan
from dflash_deploy.registry import Registry
from dflash_deploy.rules import findings

FIXTURES = Path(__file__).parents[2] / "fixtures"
OWN = (FIXTURES / "own_commands.txt").read_text(encoding="utf-8").splitlines()
PUBLISHED = [path.read_text(encoding="utf-8") for path in (FIXTURES / "commands").glob("*.txt")]
OLDER = {"vllm": "0.26.0", "sglang": "0.5.17"}


@pytest.mark.parametrize(
    ("gpu", "older"),
    [("A100:8", False), ("RTX-4090:8", False), ("H100:8", False), ("B200:8", False),
     ("RTX-5090:8", False), ("A100", True), ("H100:8", True)],
)  # fmt: skip
def test_the_right_command_is_right(shipped: Registry, gpu: str, older: bool) -> None:
    seen = 0
    for text in [*OWN, *PUBLISHED]:
        version = OLDER["vllm" if "vllm" in text else "sglang"] if older else None
        for report in reports(from_text(text), shipped, version, cards(gpu, shipped.gpus)):
            if isinstance(report.right, Plan) and report.right_text:
                seen += 1
                assert _refused(report, shipped, gpu) == [], text
                assert _said_otherwise(report, shipped, gpu) == [], text
    assert seen > len(OWN) / 2


def _servers(text: str) -> Iterator[Command]:
    return (found for words in from_text(text) if (found := read(words)) and found.kind == "serve")


def _refused(report: Report, registry: Registry, gpu: str) -> list[str]:
    """The rules that refuse the right command itself."""
    assert isinstance(report.right, Plan)
    (command,) = _servers(report.right_text or "")
    seen = serving(command, registry, report.right.version, cards(gpu, registry.gpus))
    assert seen.situation, report.right_text
    return [found.rule for found in findings(seen.situation) if found.severity == "refuse"]


def _said_otherwise(report: Report, registry: Registry, gpu: str) -> list[str]:
    """What explain has against its own command, and the words it would change in it."""
    assert isinstance(report.right, Plan)
    words = report.right_text or ""
    on = cards(gpu, registry.gpus)
    (again,) = reports(from_text(words), registry, report.right.version, on)
    wrong = [item.part for item in again.findings if item.verdict in ("wrong", "stale")]
    cards_now = again.right.tensor_parallel if isinstance(again.right, Plan) else None
    if cards_now != report.right.tensor_parallel:
        return wrong  # one card is not said, and nothing said leaves the number to the plan
    return [*wrong, *sorted({*words.split()} ^ {*(again.right_text or "").split()})]
