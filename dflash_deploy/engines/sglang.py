"""SGLang: `sglang serve --model-path TARGET --speculative-algorithm DFLASH ...`."""

from __future__ import annotations

from collections.abc import Iterator

from dflash_deploy.engines import common
from dflash_deploy.engines.spelling import Command, Setting, setting, supported, switch
from dflash_deploy.request import HEAD, Resolution

KV_DTYPES = {"bf16": "bf16", "fp8": "fp8_e4m3"}
RENDEZVOUS = 20000
"""Port at which the first node waits for the others."""
LONGER_CONTEXT = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"


def command(resolution: Resolution) -> Command:
    longer, why = longer_context(resolution)
    return Command(
        start=("sglang", "serve"),
        settings=tuple(_settings(resolution)),
        env={"DO_NOT_TRACK": "1"}
        | ({LONGER_CONTEXT: "1"} if longer else {})
        | common.variables(resolution),
        env_why=({LONGER_CONTEXT: why} if longer else {}) | common.variable_reasons(resolution),
        warnings=(*unsaid_thinking(resolution), *unsaid_key(resolution)),
        further=(*resolution.recipe.flags, *common.further(resolution)),
        node=tuple(common.node(resolution, f"{HEAD}:{RENDEZVOUS}")),
    )


def _settings(resolution: Resolution) -> Iterator[Setting]:
    entry, engine, version = resolution.entry, resolution.engine, resolution.version
    yield setting("model", common.target(resolution), "the target")
    yield setting("served_names", entry.id, "SGLang takes one name; it accepts any in requests")
    yield from common.address(resolution)
    yield from common.target_revision(resolution)
    yield from speculation(resolution)
    yield from common.tensor_parallel(resolution)
    yield from common.limits(resolution)
    why = "graphs for every batch size that may run; unset, SGLang stops at 48 requests with DFLASH"
    yield setting("graph_batch", resolution.concurrency, why)
    yield from common.memory_fraction(resolution)
    yield from common.attention_backend(resolution)
    yield from common.kv_dtype(resolution, KV_DTYPES)
    yield from common.fixes(resolution)
    yield from supported(engine, version, common.thinking(resolution))
    yield from common.parsers(resolution)
    yield switch("metrics", "the acceptance check reads the engine's own counters")
    yield from common.remote_code(resolution)


def speculation(resolution: Resolution) -> Iterator[Setting]:
    """SGLang counts the whole block, the token it starts from included."""
    yield setting("algorithm", "DFLASH", "DFlash 1 and 2 alike: SGLang asks the draft's config")
    yield setting("draft", common.draft_path(resolution), f"the draft for {resolution.entry.id}")
    yield from common.draft_revision(resolution)
    yield setting("block_size", resolution.block_size, *common.why(resolution, "block_size"))
    if backend := common.draft_backend(resolution):
        yield backend


def unsaid_thinking(resolution: Resolution) -> Iterator[str]:
    wanted = tuple(common.thinking(resolution))
    if wanted and not supported(resolution.engine, resolution.version, wanted):
        yield (
            f"SGLang {resolution.version} has no server-wide thinking mode (0.5.16 has): clients"
            f" must send chat_template_kwargs {wanted[0].value}, or the draft is accepted less"
        )


def unsaid_key(resolution: Resolution) -> Iterator[str]:
    if resolution.request.api_key_env:
        yield (
            "SGLang takes its API key in argv or a file alone: `dflash serve` writes that file for"
            " the time it runs, and the command as printed asks for no key"
        )


def longer_context(resolution: Resolution) -> tuple[bool, str]:
    """SGLang gives the draft the target's context, and refuses if either's config allows less.

    YaRN's factor does not count there: 0.5.23 srt/utils/hf_transformers/common.py.
    """
    limit, own = resolution.draft.context, resolution.entry.target.context
    if own and resolution.context > own:
        return True, f"the target's config allows {own} tokens, and YaRN's factor is not counted"
    if limit is None:
        return True, "the draft's own context is not published; if shorter, SGLang would refuse it"
    return limit < resolution.context, f"the draft's config allows {limit} tokens"
