"""What a benchmark found, as one value: `dflash bench --json`, and all that is made from it.

Times are seconds, rates are output tokens a second as the server counts them in `usage`.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from dflash_deploy.hardware import Hardware
from dflash_deploy.schema import EngineName, Thinking

BENCH_SCHEMA = "dflash.bench/1"

Method = Literal["plain", "dflash", "mtp", "eagle3", "ngram"]
"""How the target is decoded: alone, with its DFlash draft, or with what else it has for drafts."""


class Arm(msgspec.Struct, frozen=True, kw_only=True):
    """One server that takes part. A report compares arms under the same load."""

    name: str
    """Unique in its report: `plain`, `dflash-16`, `dflash-schedule`, `mtp-3`."""
    method: Method
    block_size: int | None = None
    """Bonus token included; None where the method has no block."""
    schedule: tuple[tuple[int, int, int], ...] = ()
    """(first batch size, last, draft tokens), where the draft's length follows the load."""
    argv: tuple[str, ...] = ()
    """Empty: a server somebody else started."""
    env: dict[str, str] = {}
    url: str | None = None
    synthetic_length: float | None = None
    """The acceptance length the engine was told to make up; None: it is real."""
    synthetic_rates: tuple[float, ...] = ()
    """The same by place in the block; synthetic.py has the formula."""
    ready_seconds: float | None = None


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """Closed loop: so many requests in flight. Open loop: so many arrive a second (Poisson)."""

    concurrency: int | None = None
    rate: float | None = None

    def __str__(self) -> str:
        return f"c={self.concurrency}" if self.rate is None else f"{self.rate:g}/s"


class Percentiles(msgspec.Struct, frozen=True):
    """Of one quantity over the requests of a run, in seconds."""

    mean: float
    p50: float
    p90: float
    p99: float


class Speculation(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine counted over one run: differences, summed over data-parallel ranks."""

    drafts: float
    """Draft-verify cycles of one request each."""
    draft_tokens: float
    accepted: float
    per_position: tuple[float, ...] = ()
    """Share of the cycles that accepted the draft token at each place, the first first."""
    gauge: float | None = None
    """An acceptance length that the engine says itself, over a span of its own: SGLang's gauge."""
    source: str = ""
    """What was read, in words: a gauge is no difference of counters."""

    @property
    def length(self) -> float | None:
        """Acceptance length, bonus token included: 1 + accepted / drafts, else the gauge."""
        return 1 + self.accepted / self.drafts if self.drafts > 0 else self.gauge


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One repeat of one cell."""

    seconds: float
    """From the first request sent to the last answer."""
    requests: int
    """Answered in full."""
    failed: int
    errors: tuple[str, ...] = ()
    """The distinct reasons, at most five."""
    prompt_tokens: int
    cached_tokens: int | None = None
    """Of the prompts, found in the prefix cache; None: the server does not say."""
    output_tokens: int
    ttft: Percentiles | None = None
    """Time to the first token that carries content or reasoning."""
    tpot: Percentiles | None = None
    """Time per output token after the first: (end - first) / (tokens - 1)."""
    latency: Percentiles | None = None
    """End to end."""
    speculation: Speculation | None = None
    """None: the server speculates not, or does not say."""

    @property
    def tokens_per_second(self) -> float:
        return self.output_tokens / self.seconds if self.seconds > 0 else 0.0


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One arm under one load with one workload, repeated."""

    arm: str
    load: Load
    workload: str
    runs: tuple[Run, ...]


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked: a name, where it is from, and a hash that says whether it is the same."""

    name: str
    source: str
    sha256: str
    """Of the prompts as they were sent, in order."""
    prompts: int
    max_tokens: int
    thinking: Thinking | None = None
    categories: dict[str, int] = {}


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Where it ran. No host name: a report is meant to be shown."""

    hardware: Hardware
    system: str
    cpu: str
    cores: int
    memory_gib: float
    versions: dict[str, str]
    """This project, the engine, Python, and of the engine's environment what it says."""


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked of which servers, and where: of a benchmark, and of a verification."""

    schema: str
    model: str
    draft: str | None
    weights: str | None = None
    """Which weights of the target ran, as the registry calls them; None: not known. Of a server at
    a URL its user may have said so."""
    engine: EngineName
    version: str | None
    date: str
    """ISO 8601, UTC, of the start."""
    command: str
    machine: Machine
    seed: int
    temperature: float
    workloads: tuple[Workload, ...]
    arms: tuple[Arm, ...]

    @property
    def setting(self) -> dict[str, Any]:
        """Its fields without the schema, for a document of another."""
        return {name: getattr(self, name) for name in Setting.__struct_fields__ if name != "schema"}


class Report(Setting, frozen=True, kw_only=True):
    """A whole benchmark."""

    schema: str = BENCH_SCHEMA
    cells: tuple[Cell, ...]
    ranks: int = 1
    """Processes that shared the prompts, each with a server and a load of its own."""
    complete: bool = True
    """False: it was interrupted; `--resume` goes on."""
    verdict: tuple[str, ...] = ()

    @property
    def synthetic(self) -> bool:
        """Whether any arm's acceptance was made up. Every output says so."""
        return any(arm.synthetic_length is not None for arm in self.arms)

    @property
    def ran(self) -> tuple[Arm, ...]:
        """Arms of which there is a run: an interrupted benchmark may not have come to them all."""
        names = {cell.arm for cell in self.cells if cell.runs}
        return tuple(arm for arm in self.arms if arm.name in names)


def document(report: Report) -> dict[str, Any]:
    """As it is written and printed: whoever reads it learns at its top what was made up."""
    schema, *others = msgspec.to_builtins(report).items()
    return dict([schema, ("synthetic", report.synthetic), *others])
