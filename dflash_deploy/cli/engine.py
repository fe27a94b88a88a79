"""`dflash engine`: an environment for each release of vLLM and SGLang, made, listed, removed."""

from __future__ import annotations

from typing import Annotated

import typer

from dflash_deploy.cli import _output
from dflash_deploy.cli._options import JsonOpt

ReleaseArg = Annotated[
    str, typer.Argument(metavar="RELEASE", help="vllm==0.33.0, or vllm for the newest known.")
]
InstalledArg = Annotated[
    str, typer.Argument(metavar="RELEASE", help="vllm==0.33.0, or vllm where there is but one.")
]
NoDriverCheckOpt = Annotated[
    bool, typer.Option("--no-driver-check", help="Install for a machine with a newer driver.")
]

app = typer.Typer(
    help="Install, list and remove engines, each release by itself.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("install")
def install(
    release: ReleaseArg, *, no_driver_check: NoDriverCheckOpt = False, json: JsonOpt = False
) -> None:
    """Install a release. Driver and disk are checked first, the engine itself afterwards."""
    from dflash_deploy.cli import _installing

    made, new = _installing.installed(release, check_driver=not no_driver_check)
    if json:
        _output.json({"engine": _installing.document(made), "installed": new})
        return
    _output.text(str(made.path))
    _output.note(
        f"{made.engine} {made.version} is {'ready' if new else 'installed already'};"
        f" next: dflash serve MODEL --engine {made.engine} --engine-version {made.version}"
    )


@app.command("list")
def list_engines(*, json: JsonOpt = False) -> None:
    """List the engines that `dflash serve` would find, whole or not."""
    from dflash_deploy.cli import _installing

    found = _installing.every()
    if json:
        _output.json({"engines": [_installing.document(each) for each in found],
                      "folder": str(_installing.root())})  # fmt: skip
    elif found:
        _output.table(_installing.COLUMNS, [_installing.row(each) for each in found])
    else:
        _output.note("no engine is installed; next: dflash engine install vllm")


@app.command("remove")
def remove(release: InstalledArg, *, json: JsonOpt = False) -> None:
    """Remove an installed release. Refused while a server runs from it."""
    from dflash_deploy.cli import _installing

    gone = _installing.removed(release)
    if json:
        _output.json({"removed": _installing.document(gone)})
    else:
        _output.note(f"removed {gone.engine} {gone.version} from {gone.path}")
