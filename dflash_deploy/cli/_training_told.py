"""What `dflash train` says before and after: an estimate, and a draft with its acceptance."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from dflash_deploy import hardware
from dflash_deploy.cli import _entry_file, _output
from dflash_deploy.cli._output import Column
from dflash_deploy.cli._training_entry import entered
from dflash_deploy.cli._training_process import span
from dflash_deploy.measure.verdict import COLLAPSED
from dflash_deploy.registry import Registry
from dflash_deploy.train import files
from dflash_deploy.train.estimate import GIB, Estimate, Sum
from dflash_deploy.train.recipe import MEASURED, Recipe, draft_folder

if TYPE_CHECKING:
    from dflash_deploy.cli._training import Wanted

FIRST = "vllm"
"""The engine whose plan is shown: an added draft gets recipes for vLLM and SGLang."""
TABLE = (Column("WHAT"), Column("ABOUT", right=True), Column("FORMULA", wrap=True))


def told_estimate(target: str, plan: Recipe, foreseen: Estimate, *, json: bool) -> None:
    if json:
        _output.json({
            "target": target, "draft": plan.draft, "recipe": plan, "estimate": foreseen,
            "seconds": foreseen.seconds, "memory_bytes": foreseen.memory_bytes,
            "disk_bytes": foreseen.disk_bytes,
        })  # fmt: skip
        return
    own = f" and {plan.self_prompts:,} of the target's own" if plan.self_prompts else ""
    _output.paragraph(
        f"{plan.draft} for {target}: {plan.layers} layers,"
        f" {foreseen.draft_parameters / 1e6:.1f}M parameters, blocks of {plan.block_size};"
        f" {plan.prompts:,} prompts{own}, {plan.steps:,} steps on {foreseen.device},"
        f" seed {plan.seed}" + (f"; goes on with {plan.start}" if plan.start else "")
    )
    rows = [
        *(_row(f"time: {each.what}", span(each.value), each) for each in foreseen.time),
        ("time", span(foreseen.seconds), ""),
        *(_row(f"memory: {each.what}", size(each.value), each) for each in foreseen.memory),
        ("memory", size(foreseen.memory_bytes), ""),
        *(_row(f"disk: {each.what}", size(each.value), each) for each in foreseen.disk),
        ("disk", size(foreseen.disk_bytes), ""),
    ]
    _output.table(TABLE, rows)
    _output.note("speeds are assumed, and the run says its own; nothing was started")


def _row(what: str, about: str, each: Sum) -> tuple[str, str, str]:
    return (what, about, each.formula)


def size(count: float) -> str:
    return f"{count / GIB:.1f} GiB" if count >= GIB else f"{count / (1 << 20):.0f} MiB"


def told(
    wanted: Wanted, plan: Recipe, folder: Path, config: Path | None, *, finished: bool
) -> None:
    """The draft, what it is worth, and its entry. `finished`: it was there before."""
    draft = draft_folder(folder, plan)
    measured = folder / MEASURED
    try:
        acceptance = msgspec.json.decode(measured.read_bytes(), type=dict[str, Any])
    except ValueError as error:
        raise files.damaged(measured, str(error)) from error
    file = entered(wanted, plan, draft, config, finished=finished)
    if wanted.json:
        _output.json({
            "target": plan.target, "draft": plan.draft, "folder": str(draft),
            "acceptance": acceptance, "recipe": plan, "entry": str(file) if file else None,
        })  # fmt: skip
    else:
        places = " ".join(f"{each:.2f}" for each in acceptance["by_position"])
        _output.text(f"draft       {draft}")
        _output.paragraph(
            f"{acceptance['acceptance_length']:.2f} tokens a step over {acceptance['prompts']}"
            f" of {plan.held_out} held-out prompts; by position {places}", label="acceptance  ",
        )  # fmt: skip
        if kinds := acceptance["by_kind"]:
            said = ", ".join(f"{name} {each:.2f}" for name, each in kinds.items())
            _output.paragraph(said, label="by kind     ")
        _output.paragraph(same_text(acceptance), label="same text   ")
        if file:
            _output.text(f"entry       {file}")
    if acceptance["acceptance_length"] < COLLAPSED:
        _output.warning(
            "it drafts nothing that its target would say: train another with more --steps, more"
            " prompts or another --learning-rate;"
            f" {folder}/curve.jsonl tells whether it was still learning"
        )
    if file:
        _output.note(next_step(_entry_file.below(wanted.registry), plan.draft))


def next_step(registry: Registry, draft: str) -> str:
    """Without a card the embedded engine shows it at once, where the target is small enough."""
    recipes = registry.find(draft).model.recipes
    small = any(each.when.engine == "transformers" and each.draft == draft for each in recipes)
    if small and not hardware.probe(registry.gpus).cards:
        return f"next: {shlex.join(('dflash', 'chat', draft, '--engine', 'transformers'))}"
    return _entry_file.next_step(draft, FIRST)


def same_text(acceptance: Mapping[str, Any]) -> str:
    """Of the answers that were decoded both ways: the same, near ties, and what is neither."""
    said = f"{acceptance['equal']} of {acceptance['checked']} as plain decoding"
    partings = acceptance.get("partings", ())
    costly = len(partings) - acceptance.get("near_ties", 0)
    for ones, what in (
        (partings[:costly], "with ANOTHER TEXT where the target was not in doubt"),
        (partings[costly:], "at a near tie"),
    ):
        if ones:
            widest = max(each["regret"] or 0 for each in ones)
            said += f"; {len(ones)} {what}, the widest by {widest:.2g} nats"
    return said
