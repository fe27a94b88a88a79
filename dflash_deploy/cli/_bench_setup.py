"""The options of `dflash bench` as values: loads, arms, what is asked, and how."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from dflash_deploy.choose import intended_draft
from dflash_deploy.cli import _output
from dflash_deploy.cli._planning import Wanted, request_for
from dflash_deploy.errors import UsageError
from dflash_deploy.measure.arms import Other, read_other
from dflash_deploy.measure.asks import Style, Task, random_ids, shard
from dflash_deploy.measure.bench import Course, enough_for
from dflash_deploy.measure.report import Load, Workload
from dflash_deploy.measure.workload import DEFAULT, load_workload
from dflash_deploy.registry import Registry
from dflash_deploy.schema import EngineName, Thinking

LOADS, CPU_LOADS = (1, 8, 32), (1,)
CPU_WORKLOAD, CPU_REQUESTS, CPU_TOKENS = "chat", 8, 128
"""The embedded engine answers a hundred tokens a second, and long prompts take it minutes."""
TOKENS = "tokens"
TOKENS_LENGTH = 256


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options as typed; a command leaves those that it does not have at their defaults."""

    wanted: Wanted
    engine_env: Path | None
    timeout: float | None
    workloads: tuple[str, ...]
    max_tokens: int | None
    thinking: bool | None
    seed: int
    patience: float
    json: bool
    temperature: float = 0.0
    requests: int | None = None
    concurrency: str | None = None
    rate: str | None = None
    block_sizes: str | None = None
    arms: tuple[str, ...] = ()
    synthetic: str | None = None
    repeats: int = 1
    url: str | None = None
    baseline_url: str | None = None
    output: Path | None = None
    resume: Path | None = None
    compare: Path | None = None
    """An earlier report, to stand beside the new one."""
    page: Path | None = None
    """Where the report is told for readers, by its ending."""


def engine_of(registry: Registry, asked: Asked) -> EngineName:
    return request_for(registry, asked.wanted).engine


def loads(asked: Asked, engine: EngineName) -> tuple[Load, ...]:
    """Closed loops first, in the order given. Raises UsageError."""
    closed = whole_numbers("--concurrency", asked.concurrency)
    rates = _rates(asked.rate)
    if not closed and not rates:
        closed = CPU_LOADS if engine == "transformers" else LOADS
    return (
        *(Load(concurrency=number) for number in closed),
        *(Load(rate=rate) for rate in rates),
    )


def heaviest(found: Iterable[Load]) -> int | None:
    """The most requests in flight; None where only an open loop decides."""
    return max((load.concurrency for load in found if load.concurrency), default=None)


def others(asked: Asked) -> tuple[Other, ...]:
    found = tuple(read_other(said) for said in asked.arms)
    if found and asked.synthetic:
        raise UsageError(
            "made-up acceptance is for DFlash arms, and --arm asks for others", hint="leave one out"
        )
    if len({other.name for other in found}) < len(found):
        raise UsageError("--arm names one arm twice", hint="--arm mtp:1 --arm mtp:3")
    return found


def course(
    registry: Registry, asked: Asked, engine: EngineName, rank: int, ranks: int
) -> Course:  # fmt: skip
    """What every arm goes through; prompts are this process's share."""
    found = loads(asked, engine)
    requests = asked.requests or (CPU_REQUESTS if engine == "transformers" else None)
    most = requests or max(enough_for(load) for load in found)
    mode, key = thinking(registry, asked)
    if ranks > most:
        raise UsageError(
            f"{most} requests cannot be shared by {ranks} processes", hint=f"--num-prompts {ranks}"
        )
    default = CPU_WORKLOAD if engine == "transformers" else DEFAULT
    names = tuple(dict.fromkeys(asked.workloads or (default,)))
    tasks = [_task(registry, asked, name, most, mode) for name in names]
    if engine == "transformers" and asked.max_tokens is None:
        tasks = [_with(task, max_tokens=CPU_TOKENS) for task in tasks]
    return Course(
        tasks=tuple(msgspec.structs.replace(task, prompts=shard(task.prompts, rank, ranks))
                    for task in tasks),
        loads=found, repeats=asked.repeats, requests=requests, patience=asked.patience,
        rank=rank, ranks=ranks,
        style=Style(
            temperature=asked.temperature, seed=asked.seed,
            template_kwargs={key: mode == "on"} if key and mode else {},
            # what is made up has no end of its own
            extra={"ignore_eos": True} if asked.synthetic else {},
        ),
    )  # fmt: skip


def thinking(registry: Registry, asked: Asked) -> tuple[Thinking | None, str | None]:
    """As asked, else as the draft was trained; and what switches it. Raises UsageError."""
    entry = registry.find(asked.wanted.model)
    modes = entry.target.thinking
    if asked.thinking is not None and not (modes and modes.template_key):
        raise UsageError(
            f"{entry.id} has no thinking mode to switch",
            hint="leave --enable-thinking and --no-thinking out",
        )
    if modes is None:
        return None, None
    if asked.thinking is not None:
        return "on" if asked.thinking else "off", modes.template_key
    trained = intended_draft(entry, request_for(registry, asked.wanted)).thinking
    return trained or modes.default, modes.template_key


def _task(
    registry: Registry, asked: Asked, name: str, count: int, mode: Thinking | None
) -> Task:  # fmt: skip
    kind, _, length = name.partition(":")
    if kind == TOKENS:
        task = _tokens(registry, asked, length, count)
    else:
        found, prompts = load_workload(
            name, limit=count, seed=asked.seed, on_phase=_output.note
        )  # fmt: skip
        task = Task(msgspec.structs.replace(found, thinking=mode), tuple(prompts))
    return _with(task, max_tokens=asked.max_tokens) if asked.max_tokens else task


def _tokens(registry: Registry, asked: Asked, length: str, count: int) -> Task:
    vocabulary = registry.find(asked.wanted.model).target.vocab_size
    if length and not (length.isdecimal() and int(length) > 0):
        raise UsageError(f"`{length}` is no number of tokens", hint="--workload tokens:256")
    if vocabulary is None:
        raise UsageError(
            f"the vocabulary of {asked.wanted.model} is not known", hint="--workload mixed"
        )
    return random_ids(count, int(length or TOKENS_LENGTH), vocabulary, asked.seed)


def _with(task: Task, **known: object) -> Task:
    workload: Workload = msgspec.structs.replace(task.workload, **known)
    return msgspec.structs.replace(task, workload=workload)


def whole_numbers(option: str, said: str | None) -> tuple[int, ...]:
    """`1,8,32`; each once. Raises UsageError."""
    hint = f"{option} 8,4" if option == "--block-sizes" else f"{option} 1,8,32"
    numbers = tuple(dict.fromkeys(part.strip() for part in (said or "").split(",") if part.strip()))
    for part in numbers:
        if not (part.isascii() and part.isdecimal() and 1 <= int(part) <= 65536):
            raise UsageError(f"{option} {said}: `{part}` is no number from 1 to 65536", hint=hint)
    if said is not None and not numbers:
        raise UsageError(f"{option} needs a number", hint=hint)
    return tuple(int(part) for part in numbers)


def _rates(said: str | None) -> tuple[float, ...]:
    found = []
    for part in (said or "").split(",") if said is not None else ():
        try:
            rate = float(part)
        except ValueError:
            rate = math.nan
        if not 0 < rate < math.inf:
            raise UsageError(f"--rate {said}: `{part}` is no rate", hint="--rate 0.5,2")
        found.append(rate)
    return tuple(dict.fromkeys(found))
