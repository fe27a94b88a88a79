"""`dflash bench`: plain decoding against DFlash, on servers it starts or that run already."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dflash_deploy.cli._measure_options import BaselineOpt, UrlOpt, measuring

if TYPE_CHECKING:
    from dflash_deploy.cli._bench_setup import Asked


@measuring
def bench(
    asked: Asked,
    *,
    rate: Annotated[
        str | None, typer.Option(help="Requests a second that arrive by chance, as 0.5,2.")
    ] = None,
    arm: Annotated[
        list[str] | None,
        typer.Option("--arm", help="Also mtp, eagle3=REPO or ngram; mtp:2 drafts 2 tokens."),
    ] = None,
    url: UrlOpt = None,
    baseline_url: BaselineOpt = None,
    compare: Annotated[
        Path | None, typer.Option(help="An earlier report: what got slower since.")
    ] = None,
    page: Annotated[
        Path | None, typer.Option("--report", help="Also as a page or text: FILE.html or FILE.md.")
    ] = None,
) -> None:
    """Measure what DFlash gains for MODEL here, by load. Speed, latency and acceptance."""
    from dflash_deploy.cli._benching import bench as run

    run(replace(
        asked, rate=rate, arms=tuple(arm or ()), url=url, baseline_url=baseline_url,
        compare=compare, page=page,
    ))  # fmt: skip
