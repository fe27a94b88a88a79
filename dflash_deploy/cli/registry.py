"""`dflash registry`: entries checked, and new ones from a draft or a recipe."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dflash_deploy.cli import _output
from dflash_deploy.cli._options import JsonOpt
from dflash_deploy.errors import RegistryError

FolderOpt = Annotated[
    Path | None, typer.Option(help="The registry folder to write to. Default: your own.")
]
PrintOpt = Annotated[bool, typer.Option("--print", help="Print the file, and write nothing.")]

app = typer.Typer(
    help="Check, describe, add and import registry entries.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("check")
def check(
    folder: Annotated[
        Path | None, typer.Argument(help="A registry folder to lay over the others.")
    ] = None,
    *,
    json: JsonOpt = False,
) -> None:
    """Validate every entry of every layer; exit 3 if one is wrong."""
    from dflash_deploy.registry import load
    from dflash_deploy.validate import misplaced, problems

    if folder is not None and folder.is_dir() and not any(folder.glob("models/**/*.yaml")):
        raise RegistryError(
            f"{folder}: no entry was found: they are models/<owner>/<name>.yaml below it",
            hint="see templates/overlay.yaml for one to start from",
        )
    registry = load(folder)
    found = [
        *(misplaced(folder) if folder else ()),
        *problems(registry.entries.values(), registry.engines),
    ]
    if json:
        _output.json({"entries": len(registry.entries), "problems": found})
    else:
        for problem in found:
            _output.text(f"{problem.file}: {problem.where}: {problem.message}")
        _output.note(f"{len(registry.entries)} entries, {len(found)} problems")
    if found:
        raise typer.Exit(3)


@app.command("schema")
def schema() -> None:
    """Print the JSON Schema of a registry entry, for editors and validators."""
    import msgspec

    from dflash_deploy.schema import Model

    _output.json(msgspec.json.schema(Model))


@app.command("import")
def import_recipe(
    recipe: Annotated[
        str, typer.Argument(help="A file of vllm-project/recipes, or its https address.")
    ],
    *,
    registry: FolderOpt = None,
    show: PrintOpt = False,
    json: JsonOpt = False,
) -> None:
    """Take the DFlash mode of a vLLM recipe over into the registry."""
    from dflash_deploy.cli import _importing

    made, text, path = _importing.read_recipe(recipe, registry)
    if not show:
        _importing.write(made, text, path, registry)
    for line in made.left_out:
        _output.warning(f"not taken over: {line}")
    if json:
        _output.json({"file": None if show else str(path), "target": made.target,
                      "left_out": made.left_out, "entry": made.model})  # fmt: skip
        return
    _output.text(text.rstrip("\n") if show else str(path))
    if not show:
        where = f" --registry {registry}" if registry else ""
        _output.note(f"next: dflash plan {made.target} --engine vllm{where}")


@app.command("add")
def add(
    draft: Annotated[
        str, typer.Argument(help="A draft's hub id, or a folder with its config.json.")
    ],
    *,
    target: Annotated[
        str | None, typer.Option(help="Its target: an alias or hub id. Default: what it says.")
    ] = None,
    target_config: Annotated[
        Path | None,
        typer.Option(help="A folder with the target's config.json. Default: the hub's."),
    ] = None,
    draft_id: Annotated[
        str | None, typer.Option("--id", help="The hub id of a draft that is in a folder.")
    ] = None,
    registry: FolderOpt = None,
    show: PrintOpt = False,
    json: JsonOpt = False,
) -> None:
    """Read a draft's config.json and write the entry that serves it."""
    from dflash_deploy.cli import _adding

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
        where = f" --registry {registry}" if registry else ""
        engine = next(iter(result.made.served))
        _output.note(f"next: dflash plan {result.made.draft.id} --engine {engine}{where}")
