"""`dflash show`: one entry, with its drafts, engines, limits, recipes and published numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeGuard, get_args

import typer

from dflash_deploy.cli import _output
from dflash_deploy.cli._options import EngineOpt, GpuOpt, JsonOpt, ModelArg, RegistryOpt

if TYPE_CHECKING:
    from dflash_deploy.engine_schema import Engine
    from dflash_deploy.known_limits import Limit
    from dflash_deploy.registry import Entry
    from dflash_deploy.schema import Caution, Draft, EngineName, Evidence, Target


def show(
    model: ModelArg,
    *,
    memory: Annotated[
        bool, typer.Option("--memory", help="What contexts and loads take of each card.")
    ] = False,
    engine: EngineOpt = None,
    gpu: GpuOpt = None,
    registry: RegistryOpt = None,
    json: JsonOpt = False,
) -> None:
    """Show what the registry knows about MODEL. A draft's hub id shows that draft.

    --memory shows instead what it takes of the cards here, or of --gpu; --engine is for that.
    """
    from dflash_deploy.registry import load
    from dflash_deploy.summary import meant, summarise

    known = load(registry)
    if memory:
        from dflash_deploy.cli._memory import show_memory

        show_memory(known, model, engine.value if engine else None, gpu, json=json)
        return
    entry = known.find(model)
    draft = meant(entry, model)
    if json:
        document = {"files": entry.files, "entry": entry.model, "draft": draft and draft.id,
                    "served": _served(entry, draft, known.engines)}  # fmt: skip
        _output.json(summarise(entry, known.engines) | document)
        return
    _target(entry)
    _drafts(entry, draft)
    if _servable(draft, entry):
        limits = _limits(entry, draft, known.engines)
        _engines(entry, draft, known.engines, limits)
        _clients(limits)
        _recipes(entry, draft)
    for evidence in entry.model.evidence:
        if draft is None or entry.draft(evidence.draft) == draft:
            _evidence(evidence)
    _cautions([c for c in entry.model.cautions if draft is None or c.draft in (None, draft.id)])


def _servable(draft: Draft | None, entry: Entry) -> TypeGuard[Draft]:
    return draft is not None and not (draft.unservable or entry.model.unservable)


def _served(
    entry: Entry, draft: Draft | None, engines: Mapping[str, Engine]
) -> dict[EngineName, dict[str, Any]]:
    """For each engine with a recipe for the draft: its status, first release, and limits."""
    from dflash_deploy.choose import highest_floor
    from dflash_deploy.summary import engine_statuses

    if not _servable(draft, entry):
        return {}
    return {
        name: {
            "status": engine_statuses(entry, draft)[name],
            "first_release": highest_floor(entry, engines[name], name, draft),
            "limits": [
                {**vars(limit.finding), "cards": limit.cards, "adds": limit.adds} for limit in found
            ],
        }
        for name, found in _limits(entry, draft, engines).items()
    }


def _limits(
    entry: Entry, draft: Draft, engines: Mapping[str, Engine]
) -> dict[EngineName, list[Limit]]:
    from dflash_deploy.known_limits import limits
    from dflash_deploy.summary import engine_statuses

    return {
        name: limits(engines[name], entry.target, draft) for name in engine_statuses(entry, draft)
    }


def _heading(title: str, remark: str = "") -> None:
    _output.text()
    _output.paragraph(remark, label=_output.bold(title) + ("  " if remark else ""))


def _line(label: str, value: str, *, dim: bool = False) -> None:
    """One fact about what stands above it, further lines of it under the first."""
    _output.paragraph(value, indent=2, label=f"{label:9} ", style="dim" if dim else "")


def _target(entry: Entry) -> None:
    target = entry.target
    names = f"  ({', '.join(entry.model.aliases)})" if entry.model.aliases else ""
    size = target.parameters or "size unknown"
    if target.active_parameters:
        size += f" ({target.active_parameters} active)"
    weights = (f"{w.name}, {w.gib:g} GiB" if w.gib else w.name for w in target.weights)
    _output.paragraph(entry.id + names, style="bold")
    _line("size", f"{size}, context {target.context or 'unknown'}")
    _line("weights", "; ".join(weights))
    for each in target.weights:
        if each.path:
            _line("folder", each.path)
    _line("licence", _licence(target))
    _line("needs", _need(target))
    if target.thinking:
        efforts = (
            f"; effort {', '.join(target.thinking.efforts)}" if target.thinking.efforts else ""
        )
        _line("thinking", f"{target.thinking.default} unless told otherwise{efforts}")
    if target.remote_code == "required":
        _line("code", "runs Python of its own repository: --trust-remote-code")
    if entry.model.note:
        _line("note", entry.model.note)
    if entry.layer != "shipped":
        _line("from", ", ".join(entry.files))
    if entry.model.unservable:
        _line("unserved", entry.model.unservable)


def _need(target: Target) -> str:
    minimum = target.minimum
    if minimum is None:
        return "unknown: nobody has published it"
    cards = f"{minimum.tensor_parallel} card{'s' if minimum.tensor_parallel > 1 else ''}"
    memory = f", {minimum.memory_gb} GB in all" if minimum.memory_gb else ""
    return f"{cards}{memory} ({minimum.source})"


def _licence(licensed: Target | Draft) -> str:
    """The licence, what it asks, and whether the hub asks to accept it."""
    gates = {
        True: "gated: accept it on the hub and set HF_TOKEN",
        None: "gated or not is unknown",
        False: "",
    }
    parts = (licensed.licence or "unknown", licensed.terms, gates[licensed.gated])
    return "; ".join(part for part in parts if part)


def _drafts(entry: Entry, meant: Draft | None) -> None:
    """The draft that is meant first, in full; of the others what tells them apart."""
    if meant is None:
        return
    _heading("DRAFT" if len(entry.model.drafts) == 1 else "DRAFTS")
    others = [draft for draft in entry.model.drafts if draft != meant]
    for draft in (meant, *others):
        _output.paragraph(draft.id, style="bold")
        if draft is meant or not draft.unservable:
            _line("kind", ", ".join(_kind(draft)))
            if draft.path:
                from dflash_deploy.resources import registry_root

                _line("folder", str(registry_root() / draft.path))
            _line("licence", _licence(draft))
        if draft.note:
            _line("note", draft.note)
        if draft.unservable:
            _line("unserved", draft.unservable)
        elif draft != meant and not entry.model.unservable:
            _line("more", f"dflash show {draft.id}")


def _kind(draft: Draft) -> Iterator[str]:
    yield draft.kind
    yield f"block {draft.block_size or 'unknown'}"
    if draft.gib:
        yield f"{draft.gib:g} GiB"
    if draft.quantization:
        yield draft.quantization
    if draft.format != "z-lab":
        yield f"in the layout of {draft.format}"
    if draft.thinking:
        yield f"trained for thinking {draft.thinking}"
    if draft.trained_context:
        yield f"trained on {draft.trained_context} tokens"
    if draft.context:
        yield f"context {draft.context}"


def _engines(
    entry: Entry,
    draft: Draft,
    engines: Mapping[str, Engine],
    limits: Mapping[EngineName, list[Limit]],
) -> None:
    """Which releases serve the pair, and what each engine's rules have to say of it."""
    from dflash_deploy.choose import highest_floor
    from dflash_deploy.schema import EngineName
    from dflash_deploy.summary import engine_statuses

    _heading("ENGINES", "the first release that serves it; what holds in the newest")
    statuses = engine_statuses(entry, draft)
    for name in (*statuses, *(each for each in get_args(EngineName) if each not in statuses)):
        if name not in statuses:
            _without(entry, draft, name, engines[name])
            continue
        floor = highest_floor(entry, engines[name], name, draft)
        since = f" from {floor.version}" if floor else ""
        _output.paragraph(f"{name}{since}: {statuses[name]}", style="bold")
        if floor:
            _fact("before", floor.because, floor.source)
        for limit in limits[name]:
            if limit.finding.severity != "note":
                _limit(limit)


def _without(entry: Entry, draft: Draft, name: EngineName, engine: Engine) -> None:
    from dflash_deploy.known_limits import refusal

    refused = refusal(engine, entry.target, draft)
    _output.paragraph(f"{name}: no recipe", style="bold")
    if refused:
        _fact("refuse", refused.message, refused.source)


def _limit(limit: Limit) -> None:
    found = limit.finding
    adds = f" (adds {', '.join(limit.adds)})" if limit.adds else ""
    hint = f": {found.hint}" if found.hint and not found.message.endswith(found.hint) else ""
    cards = f"on {', '.join(limit.cards)}: " if limit.cards else ""
    _fact(found.severity, f"{cards}{found.message}{hint}{adds}", found.source)


def _fact(label: str, said: str, source: str) -> None:
    _line(label, said)
    _line("", f"({source})", dim=True)


def _clients(limits: Mapping[EngineName, list[Limit]]) -> None:
    """What the authors of clients should know: notes, in one place."""
    notes = [(name, limit) for name, found in limits.items()
             for limit in found if limit.finding.severity == "note"]  # fmt: skip
    if not notes:
        return
    _heading("LIMITS", "what a client may run into")
    for name, limit in notes:
        cards = f"on {', '.join(limit.cards)}: " if limit.cards else ""
        _fact(name, cards + limit.finding.message, limit.finding.source)


def _recipes(entry: Entry, draft: Draft) -> None:
    from dflash_deploy.summary import conditions, seen, values

    _heading("RECIPES", "the first that fits is taken")
    for recipe in entry.model.recipes:
        if entry.draft(recipe.draft) != draft:
            continue
        when = f": {conditions(recipe.when)} ({seen(entry, recipe)})"
        _output.paragraph(recipe.name + when, style="bold")
        if decided := values(recipe):
            _line("sets", decided)
        _fact("why", recipe.why, recipe.source)


def _evidence(evidence: Evidence) -> None:
    from dflash_deploy.published import accepted_table, published_table, schedules

    said = [
        f"{evidence.engine} {evidence.version or ''}".strip(),
        evidence.gpu,
        evidence.date,
        evidence.weights and f"weights {evidence.weights}",
        evidence.thinking and f"thinking {evidence.thinking}",
        None if evidence.temperature is None else f"temperature {evidence.temperature:g}",
        evidence.build and _not_counted(evidence.build, synthetic=evidence.synthetic),
    ]
    title = ", ".join(part for part in said if part)
    _output.text()
    _output.paragraph(f"{evidence.outcome}: {title}", style="bold")
    _output.paragraph(evidence.how)
    if evidence.results:
        _published(*published_table(evidence, bars=_output.draws()))
    if by_load := accepted_table(evidence, bars=_output.draws()):
        _output.paragraph("accepted tokens a step, by requests at once:")
        _published(*by_load)
    for mark, words in schedules(evidence).items():
        _output.paragraph(f"{mark} draft tokens by requests in a step: {words}")
    _output.paragraph(f"source: {evidence.source}", style="dim")


def _published(header: list[str], rows: list[tuple[str, ...]]) -> None:
    columns = [
        _output.Column(name, right=bool(name) and i > 0, extra=int(not name))
        for i, name in enumerate(header)
    ]
    _output.table(columns, rows)


def _not_counted(build: str, *, synthetic: bool) -> str:
    return f"engine cost only, {build}" if synthetic else f"not counted: {build}"


def _cautions(cautions: list[Caution]) -> None:
    if not cautions:
        return
    _heading("CAUTIONS")
    for caution in cautions:
        where = f"{caution.version}: " if caution.version else ""
        _fact(caution.engine or "all", where + caution.message, caution.source)
