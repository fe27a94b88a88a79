"""`dflash serve`: a plan, run in the foreground until it ends, and proven to speculate."""

from __future__ import annotations

import signal
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dflash_deploy.cli import _options as opt
from dflash_deploy.cli import _output


class Gate(StrEnum):
    fail = "fail"
    warn = "warn"
    off = "off"


EngineEnvOpt = Annotated[
    Path | None, typer.Option("--engine-env", help="Environment the engine is installed in.")
]
ReleaseOpt = Annotated[
    str | None,
    typer.Option("--engine-version", help="Installed release to run. Default: the newest usable."),
]
TimeoutOpt = Annotated[
    float, typer.Option(min=1, help="Seconds until it must be healthy; first starts compile.")
]


def serve(
    model: opt.ModelArg,
    engine_args: opt.EngineArgs = None,
    *,
    engine: opt.EngineOpt = None,
    engine_version: ReleaseOpt = None,
    engine_env: EngineEnvOpt = None,
    gpu: opt.GpuOpt = None,
    host: opt.HostOpt = "127.0.0.1",
    port: opt.PortOpt = None,
    block_size: opt.BlockOpt = None,
    concurrency: opt.ConcurrencyOpt = None,
    context: opt.ContextOpt = None,
    tensor_parallel: opt.TensorOpt = None,
    kv_dtype: opt.KvOpt = opt.KvOption.auto,
    weights: opt.WeightsOpt = None,
    trust_remote_code: opt.TrustOpt = False,
    registry: opt.RegistryOpt = None,
    acceptance: Annotated[
        Gate, typer.Option(help="What an inactive draft does to the launch.")
    ] = Gate.fail,
    timeout: TimeoutOpt = 1800,
    json: opt.JsonOpt = False,
) -> None:
    """Start a server for MODEL with DFlash, prove that it speculates, and stay until it ends."""
    from dflash_deploy.cli._planning import Wanted
    from dflash_deploy.cli._running import ready, running
    from dflash_deploy.launch.endings import died
    from dflash_deploy.launch.signals import forwarded

    wanted = Wanted(
        model, engine, engine_version, gpu, host, port, block_size, concurrency, context,
        tensor_parallel, kv_dtype, weights, trust_remote_code, registry,
        opt.engine_words(engine_args),
    )  # fmt: skip
    with (
        running(wanted, engine_env=engine_env) as (plan, process),
        forwarded(process) as signals,
    ):
        ready(plan, process, gate=acceptance.value, timeout=timeout, json=json)
        code = process.wait()
    if not signals:
        # nobody asked it to end, so that an exit code of 0 is a failure as well
        end = died(plan.engine, code, process.tail, "while it served")
        _output.error(end, as_json=False)
        raise typer.Exit(code or end.exit_code)
    raise typer.Exit(130 if signal.SIGINT in signals else code)
