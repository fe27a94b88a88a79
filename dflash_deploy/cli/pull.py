"""`dflash pull`: a target and its draft into the hub's cache, before a server needs them."""

from __future__ import annotations

from typing import Annotated

import typer

from dflash_deploy.cli import _options as opt
from dflash_deploy.cli import _output
from dflash_deploy.errors import UsageError

DryRunOpt = Annotated[bool, typer.Option("--dry-run", help="Show what would be fetched.")]
TargetOnlyOpt = Annotated[bool, typer.Option("--target-only", help="Leave the draft out.")]
DraftOnlyOpt = Annotated[bool, typer.Option("--draft-only", help="Leave the target out.")]
VerifyOpt = Annotated[
    bool, typer.Option("--verify", help="Read what is here already and check its digests as well.")
]


def pull(
    model: opt.ModelArg,
    *,
    engine: opt.EngineOpt = None,
    weights: opt.WeightsOpt = None,
    target_only: TargetOnlyOpt = False,
    draft_only: DraftOnlyOpt = False,
    dry_run: DryRunOpt = False,
    verify: VerifyOpt = False,
    registry: opt.RegistryOpt = None,
    json: opt.JsonOpt = False,
) -> None:
    """Fetch the weights of MODEL and its draft, each file verified. Goes on where it ended."""
    from dflash_deploy.cli._planning import Wanted
    from dflash_deploy.cli._pulling import choose, pulled, seen

    if target_only and draft_only:
        raise UsageError("--target-only and --draft-only leave nothing", hint="one of the two")
    wanted = Wanted(model, engine, weights=weights, registry=registry)
    parts = choose(wanted, target=not draft_only, draft=not target_only)
    found = seen(parts, command(model, engine, weights, target_only, draft_only), verify=verify)
    if dry_run:
        document = found.document()
        if json:
            _output.json(document)
        else:
            found.show(_output.text)
        return
    found.show(_output.note)
    folders = pulled(found)
    if json:
        _output.json(found.document(folders))
        return
    for part, folder in zip(parts, folders, strict=True):
        _output.text(f"{part.role}  {folder}")


def command(
    model: str, engine: opt.EngineOption | None, weights: str | None, target: bool, draft: bool
) -> str:
    """The same command again, for hints."""
    import shlex

    words = ["dflash", "pull", model]
    words += ["--engine", engine.value] if engine else []
    words += ["--weights", weights] if weights else []
    words += ["--target-only"] if target else ["--draft-only"] if draft else []
    return shlex.join(words)
