"""Which figures on record stand beside a benchmark."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dflash_deploy.measure.record import curve, expected_length
from dflash_deploy.registry import load
from dflash_deploy.schema import Evidence, Measurement


def measured(engine: str, *loads: int, gain: float = 1.5, date: str | None = None) -> Evidence:
    return Evidence(
        outcome="verified", engine=engine, version=None, gpu=None, date=date, block_size=8,
        how="h", source="s",
        results=[
            Measurement(task="mixed", concurrency=load, speedup=gain, acceptance_length=2 * gain)
            for load in loads
        ],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("engine", "points"), [("transformers", ((1, 1.83),)), ("vllm", ((1, 1.77), (8, 1.33)))]
)
def test_an_engine_stands_beside_its_own_figures(engine, points) -> None:
    demo = load(user=False).find("smollm2-135m").model.evidence
    found = curve(SimpleNamespace(engine=engine), demo, "chat", 8)
    assert found is not None
    assert found.points == points


def test_a_server_stands_beside_other_servers_and_the_embedded_engine_beside_none() -> None:
    known = [measured("sglang", 1, 8)]
    assert curve(SimpleNamespace(engine="vllm"), known, "chat", 8) is not None
    assert curve(SimpleNamespace(engine="transformers"), known, "chat", 8) is None


def test_one_load_is_no_curve() -> None:
    assert curve(SimpleNamespace(engine="vllm"), [measured("vllm", 8)], "chat", 8) is None


def test_of_what_was_measured_twice_the_latest_stands_beside_it() -> None:
    known = [
        measured("vllm", 1, 8, gain=1.2, date="2026-11-29"),
        measured("vllm", 1, 8, gain=1.7, date="2026-11-30"),
        measured("vllm", 1, 8, gain=1.1),
    ]
    shown = curve(SimpleNamespace(engine="vllm"), known, "mixed", 8)
    expected = expected_length("vllm", known, "mixed", 8)
    assert shown is not None
    assert shown.points == ((1, 1.7), (8, 1.7))
    assert expected is not None
    assert expected[0] == 3.4
