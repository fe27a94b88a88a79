"""Prompts as requests, packed before the clock runs, each unlike any that was sent before. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle, islice
from random import Random
from typing import Any

import msgspec

from dflash_deploy.measure.client import PATH, request_body
from dflash_deploy.measure.load import Ask
from dflash_deploy.measure.prompts import Prompt
from dflash_deploy.measure.report import Workload
from dflash_deploy.plan import Endpoint

COMPLETIONS = "/v1/completions"
STREAMED = {"stream": True, "stream_options": {"include_usage": True}}
SGLANG_REPORT = {"return_spec_tokens_details": True}
"""From 0.5.19; ignored before."""
UNSPECIAL = 1000
"""Token ids below this are often signs and special tokens."""


class Style(msgspec.Struct, frozen=True, kw_only=True):
    """What all requests of a benchmark have in common."""

    temperature: float = 0.0
    seed: int = 0
    template_kwargs: dict[str, object] = {}
    """What switches thinking, for a target that can."""
    extra: dict[str, object] = {}


class Task(msgspec.Struct, frozen=True):
    """A workload with its prompts: texts, or token ids for a server without a tokenizer."""

    workload: Workload
    prompts: tuple[Prompt, ...] = ()
    ids: tuple[tuple[int, ...], ...] = ()


def asks(
    task: Task, style: Style, endpoint: Endpoint, label: str, count: int, extra: Mapping[str, Any]
) -> list[Ask]:
    """`count` requests, over the prompts in turn.

    `label` names the run, the same for every arm: each request begins with a mark made of it, so
    that no prefix cache knows the prompt, and all arms get the same prompts.
    """
    bodies = _of_ids(task, style, label) if task.ids else _of_texts(task, style, endpoint, label)
    report = SGLANG_REPORT if endpoint.engine == "sglang" else {}
    path = COMPLETIONS if task.ids else PATH
    return [
        Ask(path, msgspec.json.encode({**body, "model": endpoint.model, **STREAMED, **report,
                                       **style.extra, **extra}))
        for body in islice(bodies, count)
    ]  # fmt: skip


def _of_texts(task: Task, style: Style, endpoint: Endpoint, label: str) -> Iterator[dict[str, Any]]:
    for number, prompt in enumerate(cycle(task.prompts)):
        first, *rest = prompt.messages
        marked = {**first, "content": f"[{mark(style.seed, label, number)}]\n{first['content']}"}
        yield request_body(
            endpoint, [marked, *rest], max_tokens=task.workload.max_tokens,
            temperature=style.temperature, template_kwargs=style.template_kwargs,
            extra=_chance(style, number),
        )  # fmt: skip


def _of_ids(task: Task, style: Style, label: str) -> Iterator[dict[str, Any]]:
    for number, ids in enumerate(cycle(task.ids)):
        # as many other ids as a block of the prefix cache may hold
        fresh = Random(f"{style.seed} {label} {number}")  # noqa: S311
        marked = [fresh.choice(ids) for _ in ids[:16]]
        yield {
            "prompt": [*marked, *ids[16:]],
            "max_tokens": task.workload.max_tokens,
            "temperature": style.temperature,
            "ignore_eos": True,
            "return_token_ids": True,
            **_chance(style, number),
        }


def _chance(style: Style, number: int) -> dict[str, object]:
    """Sampled answers are the same in every arm that samples alike."""
    return {"seed": style.seed + number} if style.temperature > 0 else {}


def mark(seed: int, label: str, number: int) -> str:
    return hashlib.sha256(f"{seed} {label} {number}".encode()).hexdigest()[:8]


def random_ids(count: int, length: int, vocabulary: int, seed: int) -> Task:
    """Token ids without meaning: for a server without a tokenizer, and for no acceptance."""
    chance = Random(seed)  # noqa: S311
    ids = tuple(
        tuple(chance.randrange(min(UNSPECIAL, vocabulary // 2), vocabulary) for _ in range(length))
        for _ in range(count)
    )
    workload = Workload(
        name=f"tokens-{length}", source="random token ids",
        sha256=hashlib.sha256(msgspec.json.encode(ids)).hexdigest(),
        prompts=count, max_tokens=512,
    )  # fmt: skip
    return Task(workload, ids=ids)


def shard(prompts: Sequence[Prompt], rank: int, ranks: int) -> tuple[Prompt, ...]:
    """Every `ranks`-th prompt, from the `rank`-th."""
    return tuple(prompts[rank::ranks])
