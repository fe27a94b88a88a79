"""`dflash registry`: entries checked, and new ones from a draft or a recipe."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from dflash_deploy.cli import _output, evidence
from dflash_deploy.cli._options import JsonOpt
from dflash_deploy.errors import RegistryError, UsageError

T = TypeVar("T")


def _legible(name: T) -> T:
    """A name that would break a line or steer a terminal can only be a slip, or a trap."""
    if not str(name or "").isprintable():
        from dflash_deploy.yaml_source import one_line

        raise UsageError(
            f"`{one_line(str(name))}`: the name has signs that cannot be printed",
            hint="rename it, or link to it",
        )
    return name


FolderOpt = Annotated[
    Path | None,
    typer.Option(help="The registry folder to write to. Default: your own.", callback=_legible),
]
PrintOpt = Annotated[bool, typer.Option("--print", help="Print the file, and write nothing.")]

app = typer.Typer(
    help="Check, describe, add and import registry entries.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(evidence.app, name="evidence")


@app.command("check")
def check(
    folder: Annotated[
        Path | None,
        typer.Argument(help="A registry folder to lay over the others.", callback=_legible),
    ] = None,
    *,
    given: Annotated[
        Path | None,
        typer.Option("--registry", help="The same, as other commands say it.", callback=_legible),
    ] = None,
    json: JsonOpt = False,
) -> None:
    """Validate every entry of every layer; exit 3 if one is wrong."""
    from dflash_deploy.registry import load
    from dflash_deploy.validate import misplaced, problems
    from dflash_deploy.yaml_source import one_line

    if folder and given and folder != given:
        raise UsageError(
            "two folders: one is laid over the others",
            hint=f"dflash registry check {shlex.quote(str(given))}",
        )
    folder = folder or given
    registry = load(folder)
    if folder is not None and not any(folder.glob("models/**/*.yaml")):
        raise RegistryError(
            f"{one_line(str(folder))}: no entry was found: they are models/<owner>/<name>.yaml"
            " below it",
            hint="see templates/overlay.yaml for one to start from",
        )
    found = [
        {"file": one_line(each.file), "where": one_line(each.where),
         "message": one_line(each.message)}
        for each in (*(misplaced(folder) if folder else ()),
                     *problems(registry.entries.values(), registry.engines, registry.gpus))
    ]  # fmt: skip
    if json:
        _output.json({"entries": len(registry.entries), "problems": found})
    else:
        for each in found:
            _output.text(": ".join(each.values()))
        _output.note(f"{len(registry.entries)} entries, {len(found)} problems")
    if found:
        raise typer.Exit(3)


@app.command("schema")
def schema() -> None:
    """Print the JSON Schema of an entry, for editors and validators."""
    import msgspec

    from dflash_deploy.schema import Model

    _output.json(msgspec.json.schema(Model))


@app.command("import")
def import_recipe(
    recipe: Annotated[
        str,
        typer.Argument(
            help="A file of vllm-project/recipes, or its https address.", callback=_legible
        ),
    ],
    *,
    registry: FolderOpt = None,
    show: PrintOpt = False,
    json: JsonOpt = False,
) -> None:
    """Take the DFlash mode of a vLLM recipe over into the registry."""
    from dflash_deploy.cli import _entry_file, _importing

    overlay = _importing.read_recipe(recipe, registry)
    made = overlay.made
    if not show:
        _importing.write(overlay, registry)
    for line in (*made.notes, *(f"not taken over: {line}" for line in overlay.left_out)):
        _output.warning(line)
    if json:
        _output.json({"file": None if show else str(overlay.file), "target": made.target,
                      "left_out": overlay.left_out, "notes": made.notes,
                      "entry": made.model})  # fmt: skip
    else:
        _output.text(overlay.text.rstrip("\n") if show else str(overlay.file))
    if not show:
        _output.note(_entry_file.next_step(made.target, "vllm"))


@app.command("add")
def add(
    draft: Annotated[
        str,
        typer.Argument(
            help="A draft's hub id, or a folder with its config.json.", callback=_legible
        ),
    ],
    *,
    target: Annotated[
        str | None,
        typer.Option(
            help="Its target: an alias or hub id. Default: what it says.", callback=_legible
        ),
    ] = None,
    target_config: Annotated[
        Path | None,
        typer.Option(
            help="A folder with the target's config.json. Default: the hub's.", callback=_legible
        ),
    ] = None,
    draft_id: Annotated[
        str | None,
        typer.Option("--id", help="The hub id of a draft that is in a folder.", callback=_legible),
    ] = None,
    registry: FolderOpt = None,
    show: PrintOpt = False,
    json: JsonOpt = False,
) -> None:
    """Read a draft's config.json and write the entry that serves it."""
    from dflash_deploy.cli import _adding, _entry_file

    result = _adding.added(
        draft, target=target, target_config=target_config, draft_id=draft_id, folder=registry
    )
    if not show:
        _adding.write(result, registry)
    for line in result.notes:
        _output.warning(line)
    if json:
        _output.json(_adding.document(result, written=not show))
    elif show:
        _output.text(result.text.rstrip("\n"))
    else:
        _output.text(str(result.file))
    _output.note(_adding.headline(result))
    if not show:
        engine = next(iter(result.made.served))
        _output.note(_entry_file.next_step(result.made.draft.id, engine))
