"""What `dflash bench` and `dflash tune` ask alike, listed once."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dflash_deploy.cli import _options as opt
from dflash_deploy.cli.serve import EngineEnvOpt, ReleaseOpt, TimeoutOpt

if TYPE_CHECKING:
    from dflash_deploy.cli._bench_setup import Asked

OF_SERVERS = "engine_version"
"""The first option that is about the servers; a command's own stand before it."""


def asked(
    model: opt.ModelArg,
    engine_args: opt.EngineArgs = None,
    *,
    engine: opt.EngineOpt = None,
    concurrency: Annotated[
        str | None, typer.Option(help="Requests in flight, as 1,8,32.")
    ] = None,
    block_sizes: Annotated[
        str | None,
        typer.Option("--block-sizes", "--block-size", help="As 16,8. Default: by the entry."),
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
    temperature: Annotated[float, typer.Option(min=0, max=2, callback=opt.finite)] = 0.0,
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
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The report, written after every run.")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Go on with the report of an interrupted one.")
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
) -> Asked:  # fmt: skip
    """The values, with those that `dflash bench` alone asks for left empty."""
    from dflash_deploy.cli._bench_setup import Asked
    from dflash_deploy.cli._planning import Wanted

    words = opt.engine_words(engine_args)
    if load_format:
        words = ("--load-format", load_format, *words)
    return Asked(
        wanted=Wanted(
            model, engine, engine_version, gpu, port=port, context=context,
            tensor_parallel=tensor_parallel, kv_dtype=kv_dtype, weights=weights,
            trust_remote_code=trust_remote_code, registry=registry, engine_args=words,
        ),
        engine_env=engine_env, timeout=timeout, url=None, baseline_url=None,
        block_sizes=block_sizes, concurrency=concurrency, rate=None, arms=(),
        synthetic=synthetic_acceptance, workloads=tuple(workload or ()), requests=num_prompts,
        repeats=repeats, max_tokens=max_tokens, thinking=thinking, temperature=temperature,
        seed=seed, patience=request_timeout, output=output, resume=resume, compare=None, page=None,
        json=json,
    )  # fmt: skip


def measuring(command: Callable[..., None]) -> Callable[..., None]:
    """The command with these options around its own; it gets their values as its first argument."""
    shared = [*signature(asked, eval_str=True, locals={"Asked": object}).parameters.values()]
    _, *own = signature(command, eval_str=True, locals={"Asked": object}).parameters.values()
    at = next(place for place, each in enumerate(shared) if each.name == OF_SERVERS)

    @wraps(command)
    def run(**given: Any) -> None:
        command(asked(**{each.name: given.pop(each.name) for each in shared}), **given)

    return _declared(run, [*shared[:at], *own, *shared[at:]])


def _declared(run: Callable[..., None], options: list[Parameter]) -> Callable[..., None]:
    """What typer reads in place of the function's own signature."""
    run.__signature__ = Signature(options)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in options}
    return run
