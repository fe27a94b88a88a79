"""`dflash serve`: a plan, run until it ends or left to itself, and proven to speculate."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dflash_deploy.cli import _options as opt


class OnInactive(StrEnum):
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
    float | None,
    typer.Option(
        min=1,
        callback=opt.finite,
        help="Seconds until it must be healthy. Default: 1800, more for large weights.",
    ),
]
DetachOpt = Annotated[
    bool, typer.Option("--detach", "-d", help="Leave it running when it is ready: `dflash ps`.")
]
DockerOpt = Annotated[
    bool, typer.Option("--docker", help="In the engine's own image: no engine need be installed.")
]
RestartOpt = Annotated[
    int, typer.Option(min=0, help="Start it again after a crash, so many times (--detach).")
]

NoWaitOpt = Annotated[
    bool, typer.Option("--no-wait", help="Return at once, before it is ready (--detach).")
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
    nodes: opt.NodesOpt = 1,
    node_rank: Annotated[
        int | None, typer.Option(min=0, help="Which of the nodes this is; 0 answers clients.")
    ] = None,
    head: Annotated[
        str | None, typer.Option(help="Address of node 0, for --nodes above 1.")
    ] = None,
    kv_dtype: opt.KvOpt = opt.KvOption.auto,
    weights: opt.WeightsOpt = None,
    trust_remote_code: opt.TrustOpt = False,
    registry: opt.RegistryOpt = None,
    acceptance: Annotated[
        OnInactive, typer.Option(help="What an inactive draft does to the launch.")
    ] = OnInactive.fail,
    timeout: TimeoutOpt = None,
    docker: DockerOpt = False,
    detach: DetachOpt = False,
    restart: RestartOpt = 0,
    no_wait: NoWaitOpt = False,
    json: opt.JsonOpt = False,
) -> None:
    """Start a server for MODEL and prove that it speculates. Stays until it ends, or --detach."""
    from dflash_deploy.cli._planning import Wanted
    from dflash_deploy.cli._serving import Gate, as_follower, in_background, in_foreground
    from dflash_deploy.errors import UsageError

    if docker and engine_env:
        raise UsageError("an image brings its own engine", hint="--docker, or --engine-env")
    for option, given in (("--restart", restart), ("--no-wait", no_wait)):
        if given and not detach:
            raise UsageError(f"{option} is for servers that outlive this command", hint="--detach")
    wanted = Wanted(
        model, engine, engine_version, gpu, host, port, block_size, concurrency, context,
        tensor_parallel, nodes, kv_dtype, weights, trust_remote_code, registry,
        opt.engine_words(engine_args), node_rank, head,
    )  # fmt: skip
    gate = Gate(acceptance.value, timeout, json)
    if nodes > 1 and (docker or (detach and node_rank)):
        raise UsageError("nodes beside the first run in the foreground, and outside Docker",
                         hint="dflash plan --nodes N --format k8s or slurm")  # fmt: skip
    if nodes > 1 and node_rank:
        raise typer.Exit(as_follower(wanted, engine_env=engine_env))
    if docker:
        from dflash_deploy.cli._boxed import in_container

        code = in_container(wanted, gate, detach=detach, restart=restart, wait=not no_wait)
        raise typer.Exit(code)
    if detach:
        in_background(wanted, gate, engine_env=engine_env, restart=restart, wait=not no_wait)
    else:
        raise typer.Exit(in_foreground(wanted, gate, engine_env=engine_env))
