"""`dflash show`: one entry, with its drafts, recipes, evidence and published tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dflash_deploy.cli import _output
from dflash_deploy.cli._options import JsonOpt, ModelArg, RegistryOpt

if TYPE_CHECKING:
    from dflash_deploy.registry import Entry
    from dflash_deploy.schema import Evidence


def show(model: ModelArg, *, registry: RegistryOpt = None, json: JsonOpt = False) -> None:
    """Show everything the registry knows about MODEL."""
    from dflash_deploy.registry import load
    from dflash_deploy.summary import summarise

    entry = load(registry).find(model)
    if json:
        _output.json(summarise(entry) | {"files": entry.files, "entry": entry.model})
        return
    _target(entry)
    _drafts(entry)
    _recipes(entry)
    for evidence in entry.model.evidence:
        _evidence(evidence)
    for caution in entry.model.cautions:
        _output.warning(caution.message)


def _target(entry: Entry) -> None:
    target = entry.target
    size = target.parameters or "size unknown"
    if target.active_parameters:
        size += f" ({target.active_parameters} active)"
    weights = ", ".join(weights.name for weights in target.weights)
    gated = ", gated" if target.gated else ""
    need = f"{target.minimum.tensor_parallel} card(s)" if target.minimum else "nobody says what"
    if target.minimum and target.minimum.memory_gib:
        need += f", {target.minimum.memory_gib} GiB in all"
    _output.text(_output.bold(entry.id) + f"  ({', '.join(entry.model.aliases)})")
    _output.text(f"  {size}, context {target.context}, weights {weights}")
    _output.text(f"  licence {target.licence or 'unknown'}{gated}; needs {need}")
    _output.text(f"  from {entry.files[0]}")


def _drafts(entry: Entry) -> None:
    columns = (
        _output.Column("DRAFT", wrap=True), _output.Column("KIND"),
        _output.Column("BLOCK", right=True), _output.Column("SIZE", right=True),
        _output.Column("THINKING"), _output.Column("LICENCE"),
    )  # fmt: skip
    rows = [
        (
            draft.id, draft.kind, str(draft.block_size), f"{draft.gib} GiB" if draft.gib else "-",
            draft.thinking or "-", draft.licence or "unknown",
        )
        for draft in entry.model.drafts
    ]  # fmt: skip
    _output.text()
    _output.table(columns, rows)


def _recipes(entry: Entry) -> None:
    from dflash_deploy.status import status
    from dflash_deploy.summary import conditions

    floors = {floor.engine: floor.version for floor in entry.model.floors}
    _output.text()
    _output.text(_output.bold("RECIPES") + "  the first that fits is taken")
    for recipe in entry.model.recipes:
        title = _output.bold(f"{recipe.name}: {conditions(recipe.when, floors)}")
        _output.text(f"{title}  ({status(entry, recipe)})")
        _output.paragraph(recipe.why, indent=2)


def _evidence(evidence: Evidence) -> None:
    from dflash_deploy.summary import published_table

    where = [evidence.engine, evidence.version, evidence.gpu, evidence.date]
    title = " ".join(part for part in where if part)
    _output.text()
    _output.text(_output.bold(f"{evidence.outcome}: {title}"))
    _output.paragraph(evidence.how)
    if evidence.results:
        header, rows = published_table(evidence)
        _output.table([_output.Column(name, right=i > 0) for i, name in enumerate(header)], rows)
    _output.paragraph(f"source: {evidence.source}")
