"""`dflash bench`: plain decoding against DFlash, on servers it starts or that run already."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dflash_deploy.cli import _options as opt
from dflash_deploy.cli.serve import EngineEnvOpt, ReleaseOpt, TimeoutOpt


def bench(
    model: opt.ModelArg,
    engine_args: opt.EngineArgs = None,
    *,
    engine: opt.EngineOpt = None,
    concurrency: Annotated[
        str | None, typer.Option(help="Requests in flight, as 1,8,32.")
    ] = None,
    rate: Annotated[
        str | None, typer.Option(help="Requests a second that arrive by chance, as 0.5,2.")
    ] = None,
    block_sizes: Annotated[
        str | None, typer.Option("--block-sizes", help="As 16,8. Default: the registry's.")
    ] = None,
    arm: Annotated[
        list[str] | None,
        typer.Option("--arm", help="Also mtp, eagle3=REPO or ngram; mtp:2 drafts 2 tokens."),
    ] = None,
    workload: Annotated[
        list[str] | None,
        typer.Option(
            "--workload", "--dataset",
            help="mixed, math, gsm8k ..., a .jsonl, or tokens:256 without meaning.",
        ),
    ] = None,
    num_prompts: Annotated[
        int | None,
        typer.Option("--num-prompts", "--max-samples", min=1, help="Requests of a run."),
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, max=100, help="Runs of each cell.")] = 3,
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
    url: Annotated[str | None, typer.Option(help="A DFlash server that runs.")] = None,
    baseline_url: Annotated[
        str | None, typer.Option("--baseline-url", help="The same model, served plainly.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The report, written after every run.")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Go on with the report of an interrupted one.")
    ] = None,
    compare: Annotated[
        Path | None, typer.Option(help="An earlier report: what got slower since.")
    ] = None,
    page: Annotated[
        Path | None, typer.Option("--report", help="Also as a page or text: FILE.html or FILE.md.")
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
    """Measure what DFlash gains for MODEL here: speed, latency and acceptance by load."""
    from dflash_deploy.cli._bench_setup import Asked
    from dflash_deploy.cli._benching import bench as run
    from dflash_deploy.cli._planning import Wanted

    words = opt.engine_words(engine_args)
    if load_format:
        words = ("--load-format", load_format, *words)
    wanted = Wanted(
        model, engine, engine_version, gpu, port=port, context=context,
        tensor_parallel=tensor_parallel, kv_dtype=kv_dtype, weights=weights,
        trust_remote_code=trust_remote_code, registry=registry, engine_args=words,
    )  # fmt: skip
    run(Asked(
        wanted, engine_env, timeout, url, baseline_url, block_sizes, concurrency, rate,
        tuple(arm or ()), synthetic_acceptance, tuple(workload or ()), num_prompts, repeats,
        max_tokens, thinking, temperature, seed, request_timeout, output, resume,
        compare, page, json,
    ))  # fmt: skip
