"""`dflash verify`: is DFlash lossless here, plain decoding beside it on the same prompts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from dflash_deploy.cli import _options as opt
from dflash_deploy.cli._measure_options import BaselineOpt, UrlOpt, comparing

if TYPE_CHECKING:
    from dflash_deploy.cli._bench_setup import Asked


@comparing
def verify(
    asked: Asked,
    *,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Prompts of each workload.")
    ] = None,
    max_regret: Annotated[
        float,
        typer.Option(
            "--max-regret",
            min=0,
            callback=opt.finite,
            help="Nats that a first difference may cost.",
        ),
    ] = 0.5,
    temperature: Annotated[
        float,
        typer.Option(
            min=0, max=2, callback=opt.finite, help="Above 0: compare samples, not tokens."
        ),
    ] = 0.0,
    samples: Annotated[
        int | None, typer.Option("--samples", min=2, help="Answers to each prompt. Default: 64.")
    ] = None,
    concurrency: opt.ConcurrencyOpt = None,
    block_size: opt.BlockOpt = None,
    url: UrlOpt = None,
    baseline_url: BaselineOpt = None,
) -> None:
    """Compare MODEL's answers with and without DFlash. Exit 8 if they are not lossless here."""
    from dflash_deploy.cli._verifying import Verifying
    from dflash_deploy.cli._verifying import verify as run

    one = replace(
        asked, requests=limit, temperature=temperature, concurrency=_said(concurrency),
        block_sizes=_said(block_size), url=url, baseline_url=baseline_url,
    )  # fmt: skip
    run(Verifying(one, max_regret, samples))


def _said(number: int | None) -> str | None:
    """As `dflash bench` takes it, which takes several."""
    return None if number is None else str(number)
