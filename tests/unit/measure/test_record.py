"""Which figures on record stand beside a benchmark."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dflash_deploy.measure.record import curve
from dflash_deploy.registry import load
from dflash_deploy.schema import Evidence, Measurement


def measured(engine: str, *loads: int) -> Evidence:
    return Evidence(
        outcome="verified", engine=engine, version=None, gpu=None, date=None, block_size=8,
        how="h", source="s",
        results=[Measurement(task="mixed", concurrency=load, speedup=1.5) for load in loads],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("engine", "points"), [("transformers", ((1, 1.47),)), ("vllm", ((1, 1.31), (8, 1.06)))]
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
