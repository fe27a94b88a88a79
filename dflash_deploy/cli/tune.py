"""`dflash tune`: which block at which load pays on this machine, written as a recipe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dflash_deploy.cli._measure_options import measuring

if TYPE_CHECKING:
    from dflash_deploy.cli._bench_setup import Asked


@measuring
def tune(
    asked: Asked,
    *,
    schedule: Annotated[
        bool, typer.Option(help="Let draft tokens follow the load, where vLLM can.")
    ] = True,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say how many starts and how long; start nothing.")
    ] = False,
    show: Annotated[
        bool, typer.Option("--print", help="Print the recipe, write none.")
    ] = False,
) -> None:  # fmt: skip
    """Find the block size for each load here, as a recipe of yours."""
    from dflash_deploy.cli._tuning import Tuning
    from dflash_deploy.cli._tuning import tune as run

    run(Tuning(asked, schedule, dry_run, show))
