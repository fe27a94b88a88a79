"""vLLM: `vllm serve TARGET --speculative-config '{"method": "dflash", ...}'`."""

from __future__ import annotations

import json
from collections.abc import Iterator

from dflash_deploy.choose import choose_batched_tokens, choose_schedule
from dflash_deploy.engines import common
from dflash_deploy.engines.spelling import Command, Setting, setting, switch
from dflash_deploy.json_options import SPECULATION
from dflash_deploy.request import HEAD, Resolution
from dflash_deploy.schedule import SCHEDULE, in_words

KV_DTYPES = {"bf16": "bfloat16", "fp8": "fp8"}
QUIET = "the engine reports its usage to its makers unless told not to"


def command(resolution: Resolution) -> Command:
    return Command(
        start=("vllm", "serve", common.target(resolution)),
        settings=tuple(_settings(resolution)),
        env={"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"} | common.variables(resolution),
        env_why={"VLLM_NO_USAGE_STATS": QUIET, "DO_NOT_TRACK": QUIET}
        | common.variable_reasons(resolution),
        secret_env="VLLM_API_KEY",  # noqa: S106 - a name, not a key
        node=tuple(common.node(resolution, HEAD)),
        follower=(switch("headless", "the first node alone answers clients"),),
        further=(*resolution.recipe.flags, *common.further(resolution, SPECULATION)),
    )


def _settings(resolution: Resolution) -> Iterator[Setting]:
    entry = resolution.entry
    names = tuple(dict.fromkeys((entry.id, *entry.model.aliases)))
    yield Setting("served_names", names, "so that the model card's client code runs as it is")
    yield from common.address(resolution)
    yield from common.target_revision(resolution)
    yield speculation(resolution)
    yield from common.tensor_parallel(resolution)
    yield from common.limits(resolution)
    yield batched_tokens(resolution)
    yield from common.attention_backend(resolution)
    yield from common.kv_dtype(resolution, KV_DTYPES)
    yield from common.memory_fraction(resolution)
    yield from common.fixes(resolution)
    yield from common.thinking(resolution)
    yield from tool_choice(resolution)
    yield from common.parsers(resolution)
    yield from common.remote_code(resolution)


def speculation(resolution: Resolution) -> Setting:
    """vLLM counts the draft tokens alone: block - 1. It derives neither that nor the method."""
    config: dict[str, object] = {
        "method": "dflash",
        "model": common.draft_path(resolution),
        "num_speculative_tokens": resolution.block_size - 1,
    }
    if schedule := choose_schedule(resolution.recipe, resolution.request):
        config[SCHEDULE] = [list(span) for span in schedule]
    if resolution.draft_revision:
        config["revision"] = resolution.draft_revision
    if backend := common.draft_backend(resolution):
        config["attention_backend"] = backend.value
    config |= common.said_of(resolution, SPECULATION)
    reason, source = common.why(resolution, "block_size")
    why = f"block of {resolution.block_size} is {resolution.block_size - 1} draft tokens: {reason}"
    if schedule:
        why += f"; draft tokens by requests in a step: {in_words(schedule)}"
    return setting("speculation", json.dumps(config), why, source)


def batched_tokens(resolution: Resolution) -> Setting:
    k, n = resolution.block_size - 1, resolution.concurrency
    budget = choose_batched_tokens(resolution.block_size, n)
    why = f"8192 tokens of prefill beside {n} requests that draft {k} tokens each, on any release"
    source = "vLLM config/vllm.py 0.26.0, 0.28.0, 0.33.0"
    return setting("batched_tokens", budget, why, source)


def tool_choice(resolution: Resolution) -> Iterator[Setting]:
    if resolution.parsers and resolution.parsers.tool:
        yield switch("auto_tool_choice", "clients may send tools; it goes with the parser's name")
