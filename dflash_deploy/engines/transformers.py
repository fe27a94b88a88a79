"""The embedded engine: `python -m dflash_deploy.server --model TARGET --draft DRAFT`."""

from __future__ import annotations

from collections.abc import Iterator

from dflash_deploy.engines import common
from dflash_deploy.engines.spelling import Command, Setting, setting
from dflash_deploy.request import Resolution

FLOAT32 = "on a CPU a block of bf16 rows costs as much as its rows one by one: nothing is gained"
BY_DEVICE = "bf16 on a GPU that torch sees; float32 on a CPU, where bf16 gains nothing"
HUGE_PAGES = {"THP_MEM_ALLOC_ENABLE": "1"}
"""Read by torch, before its first allocation."""


def command(resolution: Resolution) -> Command:
    return Command(
        start=("python", "-m", "dflash_deploy.server"),
        settings=tuple(_settings(resolution)),
        env={"HF_HUB_DISABLE_TELEMETRY": "1", "DO_NOT_TRACK": "1", **HUGE_PAGES},
        env_why=dict.fromkeys(HUGE_PAGES, "weights in huge pages are read faster"),
        secret_env="DFLASH_API_KEY",  # noqa: S106 - a name, not a key
        warnings=tuple(_ignored(resolution)),
        further=(*resolution.recipe.flags, *common.further(resolution)),
    )


def _ignored(resolution: Resolution) -> Iterator[str]:
    request = resolution.request
    asked = {
        "--kv-dtype": request.kv_dtype != "auto",
        "--tensor-parallel": (request.tensor_parallel or 1) > 1,
    }
    for option in (name for name, given in asked.items() if given):
        yield f"the embedded engine runs on one device, in one dtype: {option} changes nothing"


def _settings(resolution: Resolution) -> Iterator[Setting]:
    entry = resolution.entry
    names = tuple(dict.fromkeys((entry.id, *entry.model.aliases)))
    yield setting("model", common.target(resolution), "the target")
    yield from common.target_revision(resolution)
    yield setting("draft", common.draft_path(resolution), f"the draft for {entry.id}")
    yield from common.draft_revision(resolution)
    yield setting("block_size", resolution.block_size, *common.why(resolution, "block_size"))
    yield Setting("served_names", names, "so that the model card's client code runs as it is")
    yield from common.address(resolution)
    yield from common.limits(resolution)
    dtype, why = ("auto", BY_DEVICE) if resolution.hardware.cards else ("float32", FLOAT32)
    yield setting("dtype", dtype, why, "docs/embedded-engine.md")
    yield from common.thinking(resolution)
