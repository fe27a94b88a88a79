"""Acceptance far below what is on record: said, with the causes to look at in order. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dflash_deploy.measure.gains import FEW, acceptance
from dflash_deploy.measure.record import expected_length
from dflash_deploy.measure.report import Arm, Cell, Report, Workload
from dflash_deploy.schema import Evidence

FAR = 0.75
"""Of the length on record. Prompts of one task scatter by a tenth, seeds and engines by less."""
WHOLE = 0.9
"""Of a block's draft tokens: an engine that sent fewer cut its drafts short."""
UNLIKE = 1.5
"""Between the best and the worst workload: then what is asked is a cause by itself."""


def far_below(report: Report, published: Sequence[Evidence]) -> Iterator[str]:
    """One sentence for each arm and workload that falls short. Made-up acceptance never does."""
    for arm in report.arms:
        if arm.method != "dflash" or arm.synthetic_length is not None or arm.schedule:
            continue  # what a schedule drafts is on record for no load
        for workload in report.workloads:
            cells = [c for c in report.cells if (c.arm, c.workload) == (arm.name, workload.name)]
            length = acceptance(cells)
            known = expected_length(report.engine, published, workload.name, arm.block_size)
            if length is None or known is None or length >= FAR * known[0]:
                continue
            expected, evidence, row = known
            causes = [
                *_how(cells, arm),
                *_seen(report, arm, workload, evidence, row.task),
                *_general(report, workload),
            ]
            listed = "; ".join(f"{number}. {cause}" for number, cause in enumerate(causes, 1))
            yield (
                f"{arm.name}, {workload.name}: acceptance length {length:.2f} is far below the"
                f" {expected:.2f} on record ({row.task}: {evidence.source}). Look at, in this"
                f" order: {listed}"
            )


def _how(cells: Sequence[Cell], arm: Arm) -> Iterator[str]:
    """What the counters of these cells show."""
    tokens = sum(run.output_tokens for cell in cells for run in cell.runs)
    if tokens < FEW:
        yield f"how little was measured: {tokens} tokens, and with fewer than {FEW} it is chance"
    seen = [run.speculation for cell in cells for run in cell.runs if run.speculation]
    cycles, drafted = (sum(each.drafts for each in seen), sum(each.draft_tokens for each in seen))
    whole = (arm.block_size or 1) - 1
    if cycles > 0 and 0 < drafted / cycles < WHOLE * whole:
        yield (
            f"the engine drafted {drafted / cycles:.1f} of a block's {whole} tokens a cycle, and"
            " the record is of whole blocks"
        )


def _seen(
    report: Report, arm: Arm, workload: Workload, evidence: Evidence, task: str
) -> Iterator[str]:
    """Differences that the report itself shows come first."""
    if evidence.thinking and workload.thinking and evidence.thinking != workload.thinking:
        yield (
            f"thinking was {workload.thinking} here and {evidence.thinking} there: drafts are"
            " trained for one mode"
        )
    said = " ".join(arm.argv).lower()
    if "quantization" in said or "kv-cache-dtype fp8" in said:
        yield "weights or cache are quantized here: try the bf16 ones"
    if evidence.engine == report.engine and (evidence.version or report.version) != report.version:
        yield f"the engine is {report.version} here and was {evidence.version} there"
    if report.temperature > (evidence.temperature or 0):
        yield f"temperature is {report.temperature:g} here: sampling is accepted less than greedy"
    lengths = _by_workload(report, arm)
    if lengths and max(lengths.values()) > UNLIKE * min(lengths.values()):
        by = ", ".join(f"{name} {length:.1f}" for name, length in lengths.items())
        yield f"what is asked: {by}"
    elif workload.name != task:
        yield f"what is asked: {workload.name} here, {task} there"


def _by_workload(report: Report, arm: Arm) -> dict[str, float]:
    """The best first."""
    found = {
        workload.name: length
        for workload in report.workloads
        if (
            length := acceptance(
                c for c in report.cells if (c.arm, c.workload) == (arm.name, workload.name)
            )
        )
    }
    return dict(sorted(found.items(), key=lambda each: -each[1]))


def _general(report: Report, workload: Workload) -> Iterator[str]:
    """What no report can show."""
    yield "another revision of the target or the draft: both were retrained under their names"
    yield "a quantized or fine-tuned target or draft"
    if workload.thinking is None:
        yield "thinking, if its template has it: the entry names no mode, and the server chose"
    version = report.version or "of unknown version"
    yield f"a fault of {report.engine} {version}: dflash show lists the known ones"
