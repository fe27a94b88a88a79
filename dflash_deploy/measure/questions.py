"""What is asked to compare answers: every prompt once at temperature 0, or many times. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from dflash_deploy.measure.asks import SGLANG_REPORT, Style, Task
from dflash_deploy.measure.bench import Side
from dflash_deploy.measure.client import request_body
from dflash_deploy.measure.prompts import Prompt

MOST_TOLD = 20
"""Likeliest tokens in each place: no server that is known here tells more without a flag."""
SAMPLED_TOKENS = 16
"""Of an answer that is drawn: a block or two. Further on, every answer is one of its kind."""


class Question(msgspec.Struct, frozen=True):
    """One request, the same for both servers."""

    workload: str
    prompt: Prompt
    max_tokens: int
    draw: int = 0
    """Which of its samples; 0 at temperature 0."""


def questions(tasks: Sequence[Task], samples: int | None) -> tuple[Question, ...]:
    """Prompt by prompt. `samples`: how many answers to each; None: one, at temperature 0."""
    return tuple(
        Question(task.workload.name, prompt, task.workload.max_tokens, draw)
        for task in (answered(task, samples) for task in tasks)
        for prompt in task.prompts
        for draw in range(samples or 1)
    )


def answered(task: Task, samples: int | None) -> Task:
    """With answers as long as they are compared."""
    most = min(task.workload.max_tokens, SAMPLED_TOKENS if samples else task.workload.max_tokens)
    workload = msgspec.structs.replace(task.workload, max_tokens=most)
    return msgspec.structs.replace(task, workload=workload)


def body_of(question: Question, style: Style, side: Side, *, told: bool) -> dict[str, Any]:
    """`told`: log-probabilities are asked for as well."""
    extra: dict[str, object] = dict(SGLANG_REPORT if side.endpoint.engine == "sglang" else {})
    if told:
        extra["logprobs"] = True
    if style.temperature > 0:
        # samples have to be independent: no two requests share a seed
        extra["seed"] = style.seed + 2 * question.draw + (side.arm.method == "plain")
    elif told:
        extra["top_logprobs"] = MOST_TOLD
    return request_body(
        side.endpoint, question.prompt.messages, max_tokens=question.max_tokens,
        temperature=style.temperature, template_kwargs=style.template_kwargs,
        extra={**extra, **style.extra, **side.extra},
    )  # fmt: skip
