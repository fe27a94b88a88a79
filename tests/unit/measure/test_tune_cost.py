from __future__ import annotations

from dataclasses import replace

import msgspec

from dflash_deploy.measure.asks import Style, Task
from dflash_deploy.measure.bench import Course
from dflash_deploy.measure.report import Load
from dflash_deploy.measure.tune_cost import cost
from tests.fakes.reports import report

WORKLOAD = msgspec.structs.replace(report().workloads[0], max_tokens=100)
COURSE = Course(
    tasks=(Task(WORKLOAD, ()),), loads=(Load(concurrency=1), Load(concurrency=8)), repeats=2,
    requests=16, style=Style(temperature=0.0, seed=0),
)  # fmt: skip


def test_a_start_an_arm_and_one_for_the_schedule() -> None:
    found = cost("vllm", (16, 8, 4), COURSE, schedule=True)
    assert (found.starts, found.fewest) == (5, 3)
    assert found.runs == 5 * 2 * 2
    assert cost("vllm", (8,), COURSE, schedule=False).fewest == 2


def test_the_embedded_engine_decodes_plainly_on_the_same_server() -> None:
    assert cost("transformers", (8, 4), COURSE, schedule=False).starts == 2


def test_time_is_of_starts_and_of_tokens_one_after_another() -> None:
    found = cost("vllm", (16, 8), COURSE, schedule=False)
    tokens = 16 * 100 + 2 * 100  # at 1 and at 8 in flight
    assert found.seconds == (
        round(3 * 60 + 3 * 2 * tokens / 200), round(3 * 250 + 3 * 2 * tokens / 50)
    )  # fmt: skip
    longer = cost("vllm", (16, 8), replace(COURSE, repeats=9), schedule=False)
    assert longer.seconds > found.seconds
