"""What the engines' own collectors wrote (tools/record_metrics.py), read and named as it is here."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from dflash_deploy.measure.live import Numbers, Reading, numbers, reading
from dflash_deploy.metric_names import metric_names
from dflash_deploy.registry import load
from dflash_deploy.render.recorded import Names, recorded

RECORDED = Path(__file__).parents[2] / "fixtures" / "metrics"
RELEASES = {"vllm": "0.33.0", "sglang": "0.5.23"}
ENGINES = load(user=False).engines
COUNTED = Numbers(
    acceptance_length=4.0, cycles=60, tokens_per_second=24.0, ttft_seconds=0.2, tpot_seconds=0.01
)
EXPECTED = {
    # two ranks with two running requests each; the second is the fuller one
    "vllm": msgspec.structs.replace(
        COUNTED, acceptance_by_position=(1, 1, 1, 0, 0, 0, 0), running=4, waiting=2, kv_usage=0.5
    ),
    "sglang": msgspec.structs.replace(COUNTED, running=0, waiting=0, kv_usage=0.25),
}


def text(engine: str) -> str:
    return (RECORDED / f"{engine}-{RELEASES[engine]}.txt").read_text()


@pytest.mark.parametrize("engine", RELEASES)
def test_every_number_is_found(engine: str) -> None:
    names = metric_names(ENGINES[engine], RELEASES[engine])

    seen = numbers(reading(text(engine), names, 10.0), Reading(0.0))

    rounded = msgspec.structs.replace(
        seen,
        ttft_seconds=round(seen.ttft_seconds or 0, 9),
        tpot_seconds=round(seen.tpot_seconds or 0, 9),
    )
    assert rounded == EXPECTED[engine]


@pytest.mark.parametrize("engine", RELEASES)
def test_every_series_of_the_rules_is_there_with_the_labels_that_they_use(engine: str) -> None:
    labels: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text(engine)):
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    rules = recorded(Names(metric_names(ENGINES[engine], RELEASES[engine]), "org/m"), engine)

    used = {
        name: set(re.findall(r"(\w+)=", inside))
        for rule in rules
        for name, inside in re.findall(r"(\w+:\w+)\{([^}]*)\}", rule["expr"])
    }

    assert len(used) >= 8
    assert {name for name, wanted in used.items() if not wanted <= labels.get(name, set())} == set()
