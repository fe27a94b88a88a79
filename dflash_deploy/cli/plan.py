"""`dflash plan`: the exact command, and the reason for every part of it."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from dflash_deploy.cli import _options as opt
from dflash_deploy.cli import _output

if TYPE_CHECKING:
    from dflash_deploy.cli._planning import Wanted
    from dflash_deploy.plan import Plan
    from dflash_deploy.registry import Registry


class Format(StrEnum):
    command = "command"
    json = "json"
    vllm_recipe = "vllm-recipe"
    docker = "docker"
    compose = "compose"
    k8s = "k8s"
    kserve = "kserve"
    systemd = "systemd"
    slurm = "slurm"
    skypilot = "skypilot"
    vllm_config = "vllm-config"
    sglang_config = "sglang-config"
    prometheus = "prometheus"
    grafana = "grafana"


def plan(
    model: opt.ModelArg,
    engine_args: opt.EngineArgs = None,
    *,
    engine: opt.EngineOpt = None,
    engine_version: opt.VersionOpt = None,
    gpu: opt.GpuOpt = None,
    host: opt.HostOpt = "127.0.0.1",
    port: opt.PortOpt = None,
    block_size: opt.BlockOpt = None,
    concurrency: opt.ConcurrencyOpt = None,
    context: opt.ContextOpt = None,
    tensor_parallel: opt.TensorOpt = None,
    nodes: opt.NodesOpt = 1,
    kv_dtype: opt.KvOpt = opt.KvOption.auto,
    weights: opt.WeightsOpt = None,
    trust_remote_code: opt.TrustOpt = False,
    registry: opt.RegistryOpt = None,
    form: Annotated[
        Format,
        typer.Option("--format", "-f", metavar="FORM", help=f"One of {', '.join(Format)}."),
    ] = Format.command,
    replicas: Annotated[
        int, typer.Option(min=1, help="Servers behind a router (--format k8s or compose).")
    ] = 1,
    why: Annotated[bool, typer.Option("--why", help="A table of the choices and reasons.")] = False,
    json: opt.JsonOpt = False,
) -> None:
    """Print the command that serves MODEL with DFlash. Needs no GPU, no engine, no network."""
    from dflash_deploy.cli._planning import Wanted, planned
    from dflash_deploy.registry import load

    wanted = Wanted(
        model, engine, engine_version, gpu, host, port, block_size, concurrency, context,
        tensor_parallel, nodes, kv_dtype, weights, trust_remote_code, registry,
        opt.engine_words(engine_args),
    )  # fmt: skip
    known = load(registry)
    made = planned(known, wanted)
    if json or form is Format.json:
        _output.json(made)
        return
    if form is Format.vllm_recipe:
        _output.text(recipe(known, wanted, made))
        return
    for line in (*made.warnings, *taken(made)):
        _output.warning(line)
    if why:
        rows = [(item.name, item.value, item.why) for item in made.choices]
        columns = [_output.Column("CHOICE"), _output.Column("VALUE", wrap=True)]
        _output.table([*columns, _output.Column("WHY", wrap=True)], rows)
        return
    if form is Format.command and replicas == 1:
        from dflash_deploy.render.command import render

        _output.text(render(made))
        return
    from dflash_deploy.render.exports import export

    user = f"{os.getuid()}:{os.getgid()}"
    exported = export(form.value, made, known.engines[made.engine], user, replicas)
    _output.text(exported.text)
    _output.note(f"then: {exported.use}")


def recipe(known: Registry, wanted: Wanted, made: Plan) -> str:
    """For every release from the first on: what the first has to be told in its environment too."""
    from dataclasses import replace

    import msgspec

    from dflash_deploy.cli._planning import planned
    from dflash_deploy.render import vllm_recipe
    from dflash_deploy.schedule import SCHEDULE
    from dflash_deploy.situation import first_to_have
    from dflash_deploy.summary import floors

    entry = known.find(made.model)
    least = floors(entry, entry.draft(made.draft.id), known.engines).get(made.engine)
    if least and any(SCHEDULE in word for word in made.argv):
        least = first_to_have(known.engines[made.engine], "schedule", least)
    if least and least != made.version:
        first = planned(known, replace(wanted, engine_version=least))
        made = msgspec.structs.replace(made, env=first.env | made.env)
    return vllm_recipe.render(made, entry, least)


def taken(made: Plan) -> list[str]:
    """What keeps the plan from starting at this moment; `serve` refuses for the same reason."""
    from dflash_deploy.errors import DoesNotFit
    from dflash_deploy.no_room import check_free

    try:
        check_free(made.hardware, made.cards_here, made.memory, made.engine)
    except DoesNotFit as full:
        return [f"at this moment {full.message}"]
    return []
