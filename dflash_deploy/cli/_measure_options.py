"""What `dflash bench`, `tune` and `verify` ask alike, listed once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dflash_deploy.cli import _options as opt
from dflash_deploy.cli.serve import EngineEnvOpt, ReleaseOpt, TimeoutOpt

if TYPE_CHECKING:
    from dflash_deploy.cli._bench_setup import Asked

OF_SERVERS = "request_timeout"
"""The first option that is about the servers; a command's own stand before it."""

UrlOpt = Annotated[str | None, typer.Option("--url", help="A DFlash server that runs.")]
BaselineOpt = Annotated[
    str | None, typer.Option("--baseline-url", help="The same model, served plainly.")
]


def asked(
    model: opt.ModelArg,
    engine_args: opt.EngineArgs = None,
    *,
    engine: opt.EngineOpt = None,
    workload: Annotated[
        list[str] | None,
        typer.Option(
            "--workload", "--dataset",
            help="mixed, math, gsm8k ..., a .jsonl; bench and tune: tokens:256, for speed alone.",
        ),
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", min=2, help="Of an answer.")
    ] = None,
    thinking: Annotated[
        bool | None,
        typer.Option("--enable-thinking/--no-thinking", help="Default: as the draft was trained."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
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
    """What is asked of which servers."""
    from dflash_deploy.cli._bench_setup import Asked
    from dflash_deploy.cli._planning import Wanted

    return Asked(
        wanted=Wanted(
            model, engine, engine_version, gpu, port=port, context=context,
            tensor_parallel=tensor_parallel, kv_dtype=kv_dtype, weights=weights,
            trust_remote_code=trust_remote_code, registry=registry,
            engine_args=opt.engine_words(engine_args),
        ),
        engine_env=engine_env, timeout=timeout, workloads=tuple(workload or ()),
        max_tokens=max_tokens, thinking=thinking, seed=seed, patience=request_timeout, json=json,
    )  # fmt: skip


def timed(
    asked: Asked,
    *,
    concurrency: Annotated[
        str | None, typer.Option(help="Requests in flight, as 1,8,32.")
    ] = None,
    block_sizes: Annotated[
        str | None,
        typer.Option("--block-sizes", "--block-size", help="As 16,8. Default: by the entry."),
    ] = None,
    num_prompts: Annotated[
        int | None,
        typer.Option("--num-prompts", "--max-samples", min=1, help="Requests of a run."),
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, max=100, help="Runs of each cell.")] = 3,
    temperature: Annotated[float, typer.Option(min=0, max=2, callback=opt.finite)] = 0.0,
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
) -> Asked:  # fmt: skip
    """The same, run under loads and kept in a report."""
    words = ("--load-format", load_format) if load_format else ()
    wanted = replace(asked.wanted, engine_args=(*words, *asked.wanted.engine_args))
    return replace(
        asked, wanted=wanted, concurrency=concurrency, block_sizes=block_sizes,
        requests=num_prompts, repeats=repeats, temperature=temperature,
        synthetic=synthetic_acceptance, output=output, resume=resume,
    )  # fmt: skip


def comparing(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the shared options around its own; their values are its `asked`."""
    return _behind(asked, command)


def measuring(command: Callable[..., None]) -> Callable[..., None]:
    """The same, with those of a benchmark as well."""
    return comparing(_behind(timed, command))


def _behind(values: Callable[..., Asked], command: Callable[..., None]) -> Callable[..., None]:
    """One function that takes the options of both, as typer reads them off its signature."""
    theirs = _parameters(values)
    _, *own = _parameters(command)
    at = next((n for n, each in enumerate(theirs) if each.name == OF_SERVERS), len(theirs))

    @wraps(command)
    def run(**given: Any) -> None:
        command(asked=values(**{each.name: given.pop(each.name) for each in theirs}), **given)

    options = [*theirs[:at], *own, *theirs[at:]]
    run.__signature__ = Signature(options)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in options}
    return run


def _parameters(function: Callable[..., Any]) -> list[Parameter]:
    found = signature(function, eval_str=True, locals={"Asked": object})
    return [*found.parameters.values()]
