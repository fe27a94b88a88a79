"""Benchmark reports as they come from a file, made up: speeds by arm and load, the rest plausible."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from dflash_deploy.measure.report import Report, Speculation

Speeds = dict[str, dict[int, tuple[float, ...]]]
"""Tokens a second: by arm, then requests in flight, then repeats."""
GENTLE: Speeds = {
    "plain": {1: (100, 101, 99), 8: (700, 705), 32: (2000, 2020), 64: (3000, 3030)},
    "dflash-16": {1: (400, 404), 8: (2000, 2040), 32: (2600, 2640), 64: (2400, 2420)},
    "dflash-8": {1: (330, 333), 8: (1800, 1820), 32: (3000, 3040), 64: (3200, 3400)},
}
LENGTHS = {"dflash-16": 6.5, "dflash-8": 5.0, "mtp-3": 2.8}
VERSIONS = {"dflash-deploy": "0.1.0", "vllm": "0.26.0", "python": "3.12.11"}


def report(
    speeds: Speeds = GENTLE,
    *,
    lengths: dict[str, float] | None = None,
    workloads: tuple[str, ...] = ("mixed",),
    synthetic: float | None = None,
    failed: dict[tuple[str, int], int] | None = None,
    **changes: Any,
) -> Report:
    """A report of these speeds; `changes` are fields of the report."""
    lengths = LENGTHS | (lengths or {})
    document = {
        "schema": "dflash.bench/1", "model": "Qwen/Qwen3-8B", "draft": "z-lab/Qwen3-8B-DFlash-b16",
        "engine": "vllm", "version": "0.26.0", "date": "2026-11-28T10:00:00Z",
        "command": "dflash bench qwen3-8b --concurrency 1,8,32,64", "seed": 0, "temperature": 0.0,
        "machine": {
            "hardware": {"cards": [{"name": "H100", "architecture": "hopper", "memory_gib": 80.0}],
                         "origin": "found", "driver": "580.95", "cuda": "13.0"},
            "system": "Linux 6.8", "cpu": "AMD EPYC 9554", "cores": 64, "memory_gib": 503.0,
            "versions": VERSIONS,
        },
        "workloads": [
            {"name": name, "source": "written for dflash-deploy", "sha256": name[0] * 64,
             "prompts": 84, "max_tokens": 512, "thinking": "off", "categories": {}}
            for name in workloads
        ],
        "arms": [_arm(name, synthetic) for name in speeds],
        "cells": [
            {"arm": name, "load": {"concurrency": load}, "workload": workload, "runs": [
                _run(load, speed, lengths.get(name), name, (failed or {}).get((name, load), 0))
                for speed in repeats]}
            for workload in workloads
            for name, by_load in speeds.items() for load, repeats in by_load.items()
        ],
    }  # fmt: skip
    return msgspec.convert(document | changes, Report)


def resting(made: Report, arm: str, load: int, cycles: float = 2) -> Report:
    """As of a server whose schedule drafts nothing at this load: a last request alone is drafted."""
    few = Speculation(drafts=cycles, draft_tokens=7 * cycles, accepted=cycles,
                      per_position=(1.0,))  # fmt: skip
    return replace(made, cells=tuple(
        replace(cell, runs=tuple(replace(run, speculation=few) for run in cell.runs))
        if (cell.arm, cell.load.concurrency) == (arm, load) else cell
        for cell in made.cells
    ))  # fmt: skip


def with_drafts(made: Report, arm: str, tokens: int, url: str | None = None) -> Report:
    """As of a server that drafted so many tokens a cycle; of all arms, that address."""
    seen = Speculation(drafts=15, draft_tokens=15 * tokens, accepted=30)
    return replace(
        made,
        arms=tuple(replace(each, url=url, argv=()) for each in made.arms),
        cells=tuple(
            replace(
                cell,
                runs=tuple(replace(run, speculation=seen) for run in cell.runs),
            )
            if cell.arm == arm else cell for cell in made.cells
        ),
    )  # fmt: skip


def _arm(name: str, synthetic: float | None) -> dict[str, Any]:
    method, _, size = name.partition("-")
    draft = {"block_size": int(size), "synthetic_length": synthetic} if method == "dflash" else {}
    argv = ["vllm", "serve", "Qwen/Qwen3-8B"]
    return {"name": name, "method": method, "argv": argv, "ready_seconds": 75.0, **draft}


def _run(load: int, speed: float, length: float | None, arm: str, failed: int) -> dict[str, Any]:
    tokens, requests = 40000, 84
    seconds = tokens / speed
    each = load / speed
    drafted = int(arm.rpartition("-")[2]) - arm.startswith("dflash") if length else 0
    cycle = {
        "drafts": tokens / length, "draft_tokens": tokens / length * drafted,
        "accepted": tokens / length * (length - 1),
        "per_position": [0.9**place for place in range(1, int(arm.rpartition("-")[2]))],
        "source": "the server's counters, before and after",
    } if length else None  # fmt: skip
    return {
        "seconds": seconds, "requests": requests, "failed": failed,
        "errors": ["HTTP 500"] if failed else [],
        "prompt_tokens": 20000, "cached_tokens": 0, "output_tokens": tokens,
        "ttft": _spread(0.02 * load**0.5), "tpot": _spread(each),
        "latency": _spread(each * tokens / requests), "speculation": cycle,
    }  # fmt: skip


def _spread(middle: float) -> dict[str, float]:
    return {"mean": middle, "p50": middle, "p90": middle * 1.3, "p99": middle * 1.9}
