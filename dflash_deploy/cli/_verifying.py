"""From the options of `dflash verify` to its verdict: answers in pairs, told however it ends."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace

import msgspec
import typer

from dflash_deploy.choose import intended_draft
from dflash_deploy.cli import _output, _verify_table
from dflash_deploy.cli._answer_bar import AnswerBar
from dflash_deploy.cli._bench_servers import Field, Servers, Started
from dflash_deploy.cli._bench_setup import TOKENS, Asked, course, engine_of
from dflash_deploy.cli._benching import begun
from dflash_deploy.cli._fitting import check_fits
from dflash_deploy.cli._going_on import typed
from dflash_deploy.cli._planning import request_for
from dflash_deploy.cli._verify_servers import pair
from dflash_deploy.errors import DFlashError, GateFailed, Interrupted, UsageError
from dflash_deploy.launch import state
from dflash_deploy.measure import paired
from dflash_deploy.measure.bench import Course, Side
from dflash_deploy.measure.connection import base_of
from dflash_deploy.measure.kept import Kept, digest
from dflash_deploy.measure.questions import answered, questions
from dflash_deploy.measure.record import expected_length, published_for
from dflash_deploy.measure.report import Arm, Report
from dflash_deploy.measure.sample import Counted
from dflash_deploy.measure.team import check_single
from dflash_deploy.measure.told import Said
from dflash_deploy.measure.verdict import COLLAPSED
from dflash_deploy.measure.verified import Failure, Reason, Verification
from dflash_deploy.measure.verify import Inquiry, ask_all
from dflash_deploy.measure.while_asked import OnRecord, accepted_in
from dflash_deploy.plan import without_password
from dflash_deploy.registry import Registry, load

IN_FLIGHT = "8"
PROMPTS, SAMPLED_PROMPTS = 32, 4
SAMPLES = 64
INTERRUPTED = "interrupted before every pair of answers was complete"


@dataclass(frozen=True)
class Verifying:
    """The options as typed."""

    asked: Asked
    max_regret: float
    samples: int | None


def verify(wanted: Verifying) -> None:
    """Raises typer.Exit where the gate fails, or it is interrupted, with something seen."""
    check_single("verify")
    registry = load(wanted.asked.wanted.registry)
    wanted = _with_defaults(registry, wanted)
    asked = wanted.asked
    planned = course(registry, asked, engine_of(registry, asked), 0, 1)
    found = pair(registry, asked, planned)
    check_fits(registry, asked, found, [answered(t, wanted.samples) for t in planned.tasks])
    run = _Run(registry, wanted, planned, found)
    try:
        run.all()
    except KeyboardInterrupt:
        run.stopped(Interrupted(INTERRUPTED, hint=typed()))
    except SystemExit:  # a signal: whoever sent it reads no tables
        run.signalled()
        raise
    except DFlashError as error:
        run.stopped(error)
    else:
        run.finished()


def _with_defaults(registry: Registry, wanted: Verifying) -> Verifying:
    """Sampled, a few prompts get many answers; else many get one. Raises UsageError."""
    asked = wanted.asked
    if any(name.partition(":")[0] == TOKENS for name in asked.workloads):
        raise UsageError("token ids without meaning have no answers to compare",
                         hint="--workload mixed, gsm8k or a .jsonl of yours")  # fmt: skip
    if wanted.samples and not asked.temperature:
        raise UsageError(
            "at temperature 0 every sample is the same", hint="--temperature 0.8, with --samples"
        )
    sampling = asked.temperature > 0
    if engine_of(registry, asked) != "transformers":
        asked = replace(
            asked, concurrency=asked.concurrency or IN_FLIGHT, requests=asked.requests or PROMPTS
        )  # fmt: skip
    if sampling and wanted.asked.requests is None:
        asked = replace(asked, requests=SAMPLED_PROMPTS)
    return replace(wanted, asked=asked, samples=wanted.samples or SAMPLES if sampling else None)


class _Run:
    """Asks, and holds what was answered."""

    def __init__(
        self, registry: Registry, wanted: Verifying, planned: Course, found: Field
    ) -> None:
        self.registry, self.wanted, self.found = registry, wanted, found
        self.inquiry = Inquiry(
            questions=questions(planned.tasks, wanted.samples), style=planned.style,
            concurrency=planned.loads[0].concurrency or 1, patience=planned.patience,
        )  # fmt: skip
        self.begun = begun(registry, wanted.asked, found, planned)
        self.kept = _kept(self.begun, self.inquiry, found)
        self.plain: dict[int, Said] = self.kept.read() if self.kept else {}
        self.dflash: dict[int, Said] = {}
        self.counted: dict[str, Counted] = {}
        """By method; of a plain server only where it is one of its own."""

    def all(self) -> None:
        arms = sum(len(servers.arms) for servers in self.found.servers)
        bar = AnswerBar(arms * len(self.inquiry.questions) - len(self.plain))
        if self.plain and self.kept:
            every = len(self.inquiry.questions)
            _output.note(f"plain: {len(self.plain)} of {every} answered before: {self.kept.path}")
        for servers in self.found.servers:
            if any(self._left(arm) for arm in servers.arms):
                self._asked(servers, bar)

    def _asked(self, servers: Servers, bar: AnswerBar) -> None:
        def keep(side: Side, number: int, said: Said) -> None:
            self._of(side.arm)[number] = said
            if self.kept and side.arm.method == "plain":
                self.kept.add(number, said)
            bar.now(side.arm.name)
            bar.one_more()

        def known(side: Side, number: int) -> bool:
            return number in self._of(side.arm)

        with servers.opened() as sides, bar.drawn("asking"):
            counted = ask_all(sides, self.inquiry, keep, known)
            for side in sides:
                if not side.extra:
                    self.counted[side.arm.method] = counted[side.arm.name]
                told = f"{side.arm.name}: {len(self._of(side.arm))} answers"
                bar.line(told, last=bar.answers == bar.requests)

    def _of(self, arm: Arm) -> dict[int, Said]:
        return self.plain if arm.method == "plain" else self.dflash

    def _left(self, arm: Arm) -> bool:
        return len(self._of(arm)) < len(self.inquiry.questions)

    def stopped(self, error: DFlashError) -> None:
        """What was seen before it. Raises it where nothing was compared, and else typer.Exit."""
        try:
            self.settle(complete=False)
            self._told(error)
        except KeyboardInterrupt:  # the second one is in a hurry
            raise error from None

    def signalled(self) -> None:
        """Where nothing is kept, that it ended and how it is begun again."""
        self.settle(complete=False)
        if not (self.kept and self.plain):
            _output.note(f"ended by a signal; again: {typed()}")

    def finished(self) -> None:
        """The verdict; nothing is forgotten until it is told. Raises typer.Exit if it fails."""
        try:
            self._told(None)
        except typer.Exit:
            self.settle(complete=True)
            raise
        except KeyboardInterrupt:
            self.settle(complete=False)
            raise Interrupted("interrupted before the verdict", hint=typed()) from None
        except (SystemExit, DFlashError) as error:
            # a reader who left has seen enough; a signal, or a full disk, took the verdict away
            self.settle(complete=isinstance(error, SystemExit) and not error.code)
            raise
        self.settle(complete=True)

    def _told(self, stopped: DFlashError | None) -> None:
        found = self._found(complete=stopped is None)
        if stopped is not None and not found.compared:
            raise stopped
        error = stopped or failed(found, self.wanted.asked)
        if error is not None:
            failure = Failure(error.code, error.message, error.hint, error.detail)
            found = msgspec.structs.replace(found, error=failure)
        if self.wanted.asked.json:
            _output.json(found)
        else:
            _verify_table.show(found)
        if error is not None:
            _output.error(error, as_json=False)
            raise typer.Exit(error.exit_code)

    def settle(self, *, complete: bool) -> None:
        """What plain decoding said is kept for the next time, until there is none."""
        if self.kept and complete:
            self.kept.forget()
        elif self.kept and self.kept.trouble:
            _output.warning(f"{self.kept.path} cannot be written: {self.kept.trouble}")
        elif self.kept and self.plain:
            _output.note(
                f"what plain decoding answered is kept ({len(self.plain)} of"
                f" {len(self.inquiry.questions)}): the same command goes on"
            )

    def _found(self, *, complete: bool) -> Verification:
        seen = paired.pairs(self.inquiry.questions, self.plain, self.dflash)
        accepted = accepted_in(
            [said.cycles for said in self.dflash.values() if said.cycles],
            self.counted.get("dflash"), self.counted.get("plain"), self._on_record(),
            tokens=sum(len(said.answer.tokens) for said in self.dflash.values()),
            complete=complete,
        )  # fmt: skip
        return paired.verification(
            self.begun, seen, accepted, questions=len(self.inquiry.questions),
            max_regret=self.wanted.max_regret, complete=complete,
        )  # fmt: skip

    def _on_record(self) -> OnRecord | None:
        """For this block: of the one workload that was asked, or on average."""
        entry = self.registry.find(self.begun.model)
        block = next((arm.block_size for arm in self.begun.arms if arm.block_size), None)
        if block is None:
            draft = intended_draft(entry, request_for(self.registry, self.wanted.asked.wanted))
            block = draft.block_size
        names = [workload.name for workload in self.begun.workloads]
        task = names[0] if len(names) == 1 else "average"
        published = published_for(entry, self.begun.draft)
        return expected_length(self.begun.engine, published, task, block)


def _kept(before: Report, inquiry: Inquiry, found: Field) -> Kept | None:
    """Of servers that this command starts; what runs at a URL may be another one next time."""
    if not all(isinstance(servers, Started) for servers in found.servers):
        return None
    return Kept(state.root() / "verify" / f"{digest(before, inquiry.questions)}.jsonl")


def failed(found: Verification, asked: Asked) -> GateFailed | None:
    """The error of a gate that did not pass: its first reason, and what to type next."""
    if found.passed or not found.failing:
        return None
    first, *others = found.failing
    detail = "\n".join(f"also: {other.message}" for other in others)
    return GateFailed(
        f"not lossless: {first.message}", hint=_next(found, asked, first.reason),
        detail=detail or None,
    )  # fmt: skip


def _next(found: Verification, asked: Asked, reason: Reason) -> str:
    model = shlex.quote(asked.wanted.model)
    match reason:
        case "plain_drafts":
            return "--baseline-url with a server that was started without the draft"
        case "nothing_drafted" if found.acceptance and (found.acceptance.length or 0) > COLLAPSED:
            return "--concurrency 1: with fewer requests in flight a schedule drafts"
        case "unseen" if asked.url:
            return f"curl {without_password(base_of(asked.url))}/metrics"
        case "nothing_compared":
            return f"dflash verify {model} --workload mixed"
        case "untold" if asked.url:
            return f"dflash verify {model} --engine {found.engine} starts servers that tell it"
    return f"dflash plan {model} --engine {found.engine} --why"
