"""`dflash tune`: which block at which load pays on this machine, written as a recipe."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dflash_deploy.cli import _options as opt
from dflash_deploy.cli.serve import EngineEnvOpt, ReleaseOpt, TimeoutOpt


def tune(
    model: opt.ModelArg,
    engine_args: opt.EngineArgs = None,
    *,
    engine: opt.EngineOpt = None,
    concurrency: Annotated[
        str | None, typer.Option(help="Requests in flight that it shall serve well, as 1,8,32.")
    ] = None,
    block_sizes: Annotated[
        str | None, typer.Option("--block-sizes", help="Default: the draft's own and its halves.")
    ] = None,
    schedule: Annotated[
        bool, typer.Option(help="Let draft tokens follow the load, where vLLM can.")
    ] = True,
    workload: Annotated[
        list[str] | None,
        typer.Option("--workload", "--dataset", help="As of dflash bench: mixed, gsm8k, a .jsonl."),
    ] = None,
    num_prompts: Annotated[
        int | None,
        typer.Option("--num-prompts", "--max-samples", min=1, help="Requests of a run."),
    ] = None,
    repeats: Annotated[
        int, typer.Option(min=1, max=100, help="Runs of each cell that is in the race.")
    ] = 3,
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", min=2, help="Of an answer.")
    ] = None,
    thinking: Annotated[
        bool | None,
        typer.Option("--enable-thinking/--no-thinking", help="Default: as the draft was trained."),
    ] = None,
    temperature: Annotated[float, typer.Option(min=0, max=2)] = 0.0,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    synthetic_acceptance: Annotated[
        str | None,
        typer.Option(
            "--synthetic-acceptance",
            help="Make acceptance up: published, a length, or rates by place.",
        ),
    ] = None,
    load_format: Annotated[
        str | None, typer.Option("--load-format", help="Passed on: dummy needs no weights.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say how many starts and how long; start nothing.")
    ] = False,
    show: Annotated[
        bool, typer.Option("--print", help="Print the recipe, write none.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The report, written after every run.")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Go on with the report of an interrupted one.")
    ] = None,
    request_timeout: Annotated[
        float, typer.Option("--request-timeout", min=0.1, help="Seconds for one answer.")
    ] = 600.0,
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
    """Find the block size of MODEL for each load here, and write it as your recipe."""
    from dflash_deploy.cli._bench_setup import Asked
    from dflash_deploy.cli._planning import Wanted
    from dflash_deploy.cli._tuning import Tuning
    from dflash_deploy.cli._tuning import tune as run

    words = opt.engine_words(engine_args)
    if load_format:
        words = ("--load-format", load_format, *words)
    wanted = Wanted(
        model, engine, engine_version, gpu, port=port, context=context,
        tensor_parallel=tensor_parallel, kv_dtype=kv_dtype, weights=weights,
        trust_remote_code=trust_remote_code, registry=registry, engine_args=words,
    )  # fmt: skip
    run(Tuning(Asked(
        wanted, engine_env, timeout, None, None, block_sizes, concurrency, None, (),
        synthetic_acceptance, tuple(workload or ()), num_prompts, repeats, max_tokens, thinking,
        temperature, seed, request_timeout, output, resume, None, None, json,
    ), schedule, dry_run, show))  # fmt: skip
