"""The gains of docs/benchmark.md are those of the reports that it names."""

from __future__ import annotations

from pathlib import Path

import pytest

from dflash_deploy.measure.gains import gains
from dflash_deploy.measure.results import read

DOCS = Path(__file__).parents[3] / "docs"
TOLD = (DOCS / "benchmark.md").read_text()
VLLM = "2026-11-30-h200-vllm-0.26.0-qwen3-8b-tune"
REPORTS = [
    VLLM,
    "2026-11-30-h200-sglang-0.5.17-qwen3-8b-tune",
    "2026-11-30-h200-vllm-0.26.0-llama-3.1-8b-tune",
    "2026-11-30-h200-vllm-0.26.0-gemma-4-31b-tune",
]


def report(name: str):
    return read(DOCS / "evidence" / f"{name}.json")


def rows(heading: str) -> dict[str, str]:
    """Of the first table behind it, by their first cell."""
    section = TOLD.split(f"## Measured: {heading}", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return {line.split(" | ")[0].strip("| "): line for line in lines}


@pytest.mark.parametrize("name", REPORTS)
def test_every_gain_of_a_report_is_told(name) -> None:
    for gain in gains(report(name)):
        assert f"| {gain.rate.mean:.0f}, {gain.mean:.2f}x |" in TOLD, gain


def test_sglang_stands_beside_what_vllm_is_told_to_do_above() -> None:
    told = rows("Qwen3-8B on SGLang")
    found = {(g.arm.name, g.load.concurrency): g.mean for g in gains(report(VLLM))}
    for load in (1, 8, 32, 64):
        pair = f"{found['dflash-16', load]:.2f}x, {found['dflash-8', load]:.2f}x"
        assert f"| {pair} |" in told[str(load)]
