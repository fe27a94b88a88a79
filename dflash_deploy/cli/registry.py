"""`dflash registry`: check entries, and the schema they follow."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dflash_deploy.cli import _output
from dflash_deploy.cli._options import JsonOpt
from dflash_deploy.errors import RegistryError

app = typer.Typer(
    help="Check and describe registry entries.", no_args_is_help=True, rich_markup_mode=None
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
    from dflash_deploy.validate import problems

    if folder is not None and folder.is_dir() and not any(folder.glob("models/**/*.yaml")):
        raise RegistryError(
            f"{folder}: no entry was found: they are models/<owner>/<name>.yaml below it",
            hint="see templates/overlay.yaml for one to start from",
        )
    registry = load(folder)
    found = problems(registry.entries.values(), registry.engines)
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
