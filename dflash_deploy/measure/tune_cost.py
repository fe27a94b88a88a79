"""How many servers a tuning starts, and about how long it takes. Pure.

What a server needs to be ready is from docs/servers.md and docs/evidence: 8B and 20B targets on an
H100 or H200. How fast plain decoding is nobody knows yet, so that the answer is a span.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dflash_deploy.measure.bench import Course
from dflash_deploy.measure.turns import width

READY = {"vllm": (60, 250), "sglang": (60, 250), "transformers": (5, 30)}
"""Seconds: with caches of compiled code, and without."""
SPEEDS = {"vllm": (200, 50), "sglang": (200, 50), "transformers": (60, 10)}
"""Tokens a second of one answer, decoded plainly."""


class Cost(msgspec.Struct, frozen=True):
    starts: int
    """At most: what loses early is not followed up."""
    fewest: int
    runs: int
    seconds: tuple[int, int]


def cost(engine: str, blocks: Sequence[int], course: Course, *, schedule: bool) -> Cost:
    """Plain once, each block once, and the schedule once more if there is to be one.

    The embedded engine decodes plainly and with the first block on one server.
    """
    arms = 1 + len(blocks) + schedule
    shared = engine == "transformers"
    starts, fewest = arms - shared, min(2, len(blocks)) + 1 - shared
    runs = arms * len(course.loads) * len(course.tasks) * course.repeats
    ready, speed = READY[engine], SPEEDS[engine]
    low, high = (
        round(count * ready[at] + arms * course.repeats * _tokens(course) / speed[at])
        for at, count in ((0, fewest), (1, starts))
    )
    return Cost(starts, fewest, runs, (low, high))


def _tokens(course: Course) -> float:
    """That are decoded one after another in one repeat of one arm."""
    return sum(
        max(1.0, course.requests_at(load) / width(load)) * task.workload.max_tokens
        for load in course.loads for task in course.tasks
    )  # fmt: skip
