"""`dflash show`: one entry, with its drafts, recipes, evidence and published tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dflash_deploy.cli import _output
from dflash_deploy.cli._options import JsonOpt, ModelArg, RegistryOpt

if TYPE_CHECKING:
    from dflash_deploy.engine_schema import Engine
    from dflash_deploy.registry import Entry
    from dflash_deploy.schema import Draft, Evidence, Target


def show(model: ModelArg, *, registry: RegistryOpt = None, json: JsonOpt = False) -> None:
    """Show everything the registry knows about MODEL; a draft's hub id shows that draft."""
    from dflash_deploy.registry import load
    from dflash_deploy.summary import summarise

    known = load(registry)
    entry = known.find(model)
    if json:
        document = {"files": entry.files, "entry": entry.model}
        _output.json(summarise(entry, known.engines) | document)
        return
    meant = _meant(entry, model)
    _target(entry)
    _drafts(entry)
    if entry.model.unservable:
        _output.text()
        _output.paragraph(f"not servable: {entry.model.unservable}")
    elif meant:
        _engines(entry, meant, known.engines)
        _recipes(entry, meant)
    for evidence in entry.model.evidence:
        if meant is None or (evidence.draft or entry.model.drafts[0].id) == meant.id:
            _evidence(evidence)
    for caution in entry.model.cautions:
        where = f"{caution.engine} {caution.version or ''}".strip() + ": " if caution.engine else ""
        _output.warning(where + caution.message)


def _meant(entry: Entry, model: str) -> Draft | None:
    """The draft that MODEL is the hub id of, else the entry's first."""
    named = [draft for draft in entry.model.drafts if draft.id.lower() == model.lower()]
    return next(iter(named or entry.model.drafts), None)


def _target(entry: Entry) -> None:
    target = entry.target
    size = target.parameters or "size unknown"
    if target.active_parameters:
        size += f" ({target.active_parameters} active)"
    weights = ", ".join(weights.name for weights in target.weights)
    aliases = f"  ({', '.join(entry.model.aliases)})" if entry.model.aliases else ""
    _output.text(_output.bold(entry.id) + aliases)
    _output.text(f"  {size}, context {target.context or 'unknown'}, weights {weights}")
    _output.paragraph(f"licence {_licence(target)}; needs {_need(target)}", indent=2)
    if target.remote_code == "required":
        _output.text("  runs Python code of its repository: --trust-remote-code")
    _output.text(f"  from {entry.files[0]}")


def _need(target: Target) -> str:
    if target.minimum is None:
        return "what nobody has published"
    memory = f", {target.minimum.memory_gib} GB in all" if target.minimum.memory_gib else ""
    return f"{target.minimum.tensor_parallel} card(s){memory}"


def _licence(licensed: Target | Draft) -> str:
    gated = {True: ", gated", False: "", None: ", gated or not is unknown"}[licensed.gated]
    terms = f" ({licensed.terms})" if licensed.terms else ""
    return f"{licensed.licence or 'unknown'}{gated}{terms}"


def _drafts(entry: Entry) -> None:
    columns = (
        _output.Column("DRAFT"), _output.Column("KIND"), _output.Column("BLOCK", right=True),
        _output.Column("SIZE", right=True), _output.Column("THINKING"),
    )  # fmt: skip
    drafts = entry.model.drafts
    rows = [
        (draft.id, draft.kind, str(draft.block_size or "?"),
         f"{draft.gib} GiB" if draft.gib else "-", draft.thinking or "-")
        for draft in drafts
    ]  # fmt: skip
    _output.text()
    if rows:
        _output.table(columns, rows)
    for draft in drafts:
        _output.paragraph(f"{draft.id}: licence {_licence(draft)}", indent=2)
        for line in (draft.note, draft.unservable and f"not servable: {draft.unservable}"):
            if line:
                _output.paragraph(line, indent=4)


def _engines(entry: Entry, draft: Draft, engines: Mapping[str, Engine]) -> None:
    """Which releases serve the pair, and what each engine's rules have to say of it."""
    from dflash_deploy.choose import highest_floor
    from dflash_deploy.known_limits import limits
    from dflash_deploy.summary import engine_statuses

    _output.text()
    _output.text(_output.bold("ENGINES"))
    for name, seen in engine_statuses(entry).items():
        floor = highest_floor(entry, engines[name], name, draft)
        since = f" from {floor.version} on" if floor else ""
        _output.text(f"  {_output.bold(name)}{since}: {seen}")
        if floor:
            _output.paragraph(f"before it, {floor.because}", indent=4)
        for limit in limits(engines[name], entry.target, draft):
            cards = f" on {', '.join(limit.cards)}" if limit.cards else ""
            _output.paragraph(f"{limit.finding.severity}{cards}: {limit.finding.message}", indent=4)


def _recipes(entry: Entry, draft: Draft) -> None:
    from dflash_deploy.status import status
    from dflash_deploy.summary import conditions

    _output.text()
    _output.text(_output.bold("RECIPES") + "  the first that fits is taken")
    for recipe in entry.model.recipes:
        if entry.draft(recipe.draft) != draft:
            continue
        title = _output.bold(f"{recipe.name}: {conditions(recipe.when)}")
        _output.text(f"{title}  ({status(entry, recipe)})")
        _output.paragraph(recipe.why, indent=2)


def _evidence(evidence: Evidence) -> None:
    from dflash_deploy.published import published_table

    where = [evidence.engine, evidence.version, evidence.gpu, evidence.date]
    title = " ".join(part for part in where if part)
    build = f", not a release: {evidence.build}" if evidence.build else ""
    _output.text()
    _output.text(_output.bold(f"{evidence.outcome}: {title}{build}"))
    _output.paragraph(evidence.how)
    if evidence.results:
        header, rows = published_table(evidence, bars=_output.draws())
        _output.table([_output.Column(name, right=bool(name) and i > 0)
                       for i, name in enumerate(header)], rows)  # fmt: skip
    _output.paragraph(f"source: {evidence.source}")
