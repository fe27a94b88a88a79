"""`dflash verify`: is DFlash lossless here, plain decoding beside it on the same prompts."""

from __future__ import annotations

from typing import Annotated

import typer

from dflash_deploy.cli import _options as opt
from dflash_deploy.cli.serve import EngineEnvOpt, ReleaseOpt, TimeoutOpt


def verify(
    model: opt.ModelArg,
    engine_args: opt.EngineArgs = None,
    *,
    engine: opt.EngineOpt = None,
    workload: Annotated[
        list[str] | None,
        typer.Option("--workload", "--dataset", help="As of dflash bench: mixed, gsm8k, a .jsonl."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Prompts of each workload.")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", min=2, help="Of an answer.")
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
    thinking: Annotated[
        bool | None,
        typer.Option("--enable-thinking/--no-thinking", help="Default: as the draft was trained."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    concurrency: opt.ConcurrencyOpt = None,
    block_size: opt.BlockOpt = None,
    url: Annotated[str | None, typer.Option(help="A DFlash server that runs.")] = None,
    baseline_url: Annotated[
        str | None, typer.Option("--baseline-url", help="The same model, served plainly.")
    ] = None,
    request_timeout: opt.RequestTimeoutOpt = 600.0,
    engine_version: ReleaseOpt = None,
    engine_env: EngineEnvOpt = None,
    gpu: opt.GpuOpt = None,
    port: opt.PortOpt = None,
    context: opt.ContextOpt = None,
    tensor_parallel: opt.TensorOpt = None,
    kv_dtype: opt.KvOpt = opt.KvOption.auto,
    weights: opt.WeightsOpt = None,
    trust_remote_code: opt.TrustOpt = False,
    registry: opt.RegistryOpt = None,
    timeout: TimeoutOpt = None,
    json: opt.JsonOpt = False,
) -> None:  # fmt: skip
    """Compare MODEL's answers with and without DFlash: are they lossless here? Exit 8 if not."""
    from dflash_deploy.cli._bench_setup import Asked
    from dflash_deploy.cli._planning import Wanted
    from dflash_deploy.cli._verifying import Verifying
    from dflash_deploy.cli._verifying import verify as run

    wanted = Wanted(
        model, engine, engine_version, gpu, port=port, context=context,
        tensor_parallel=tensor_parallel, kv_dtype=kv_dtype, weights=weights,
        trust_remote_code=trust_remote_code, registry=registry,
        engine_args=opt.engine_words(engine_args),
    )  # fmt: skip
    run(Verifying(Asked(
        wanted, engine_env, timeout, url, baseline_url, _said(block_size), _said(concurrency),
        None, (), None, tuple(workload or ()), limit, 1, max_tokens, thinking, temperature, seed,
        request_timeout, None, None, None, None, json,
    ), max_regret, samples))  # fmt: skip


def _said(number: int | None) -> str | None:
    """As `dflash bench` takes it, which takes several."""
    return None if number is None else str(number)
