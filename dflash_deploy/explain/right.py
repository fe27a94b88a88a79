"""The right command for what somebody wanted: a request with that person's own values."""

from __future__ import annotations

from dflash_deploy.errors import DFlashError
from dflash_deploy.explain.serving import Serving
from dflash_deploy.hardware import Hardware
from dflash_deploy.plan import Plan, make_plan
from dflash_deploy.registry import Registry
from dflash_deploy.request import Request
from dflash_deploy.schema import EngineName


def right_plan(serving: Serving) -> Plan | DFlashError:
    """The plan for the pair that a command names, or the reason why there is none.

    Parallelism, address, context, load, KV dtype and a block the draft can do are kept; options
    that the plan does not decide and that this release knows are passed on.
    """
    entry = serving.entry
    model = serving.draft.id if serving.draft else entry.id if entry else serving.target or ""
    block, trained = serving.block_size, serving.draft.block_size if serving.draft else None
    usable = block is not None and trained is not None and 2 <= block < trained
    host = serving.settings.get("host", ("127.0.0.1",))
    request = Request(
        model=model,
        engine=serving.name,
        engine_version=str(serving.version),
        host=host[0] if host else "127.0.0.1",
        port=serving.number("port"),
        block_size=block if usable else None,
        concurrency=serving.number("concurrency"),
        context=serving.number("context"),
        tensor_parallel=serving.number("tensor_parallel"),
        kv_dtype=serving.kv_dtype,
        trust_remote_code=bool(entry and entry.target.remote_code == "required"),
        engine_args=tuple(_kept(serving)),
    )
    return _made(serving.registry, request, serving.hardware)


def plan_for(registry: Registry, model: str, engine: EngineName, hardware: Hardware) -> (
    Plan | DFlashError
):  # fmt: skip
    """The plan for a model named outside a server's command."""
    return _made(registry, Request(model=model, engine=engine), hardware)


def _made(registry: Registry, request: Request, hardware: Hardware) -> Plan | DFlashError:
    try:
        return make_plan(registry, request, hardware)
    except DFlashError as error:
        return error


def _kept(serving: Serving) -> list[str]:
    """Options of the user's own that no plan decides: as written, if this release knows them."""
    decided = {spelling.flag for spelling in serving.engine.spellings}
    dropped = {"--model", "--trust-remote-code", "--api-key", "--admin-api-key", "--dtype",
               "--speculative-dflash-block-size", "--speculative-eagle-topk",
               "--speculative-num-steps", "--spec-method", "--spec-model",
               "--spec-tokens"}  # fmt: skip
    return [
        word
        for given in serving.given
        if given.flag and given.known and given.flag not in decided | dropped
        and not _wrong(given.row is not None and given.row.choices, given.words)
        for word in (given.flag, *given.words)
    ]  # fmt: skip


def _wrong(choices: list[str] | bool | None, words: tuple[str, ...]) -> bool:
    return isinstance(choices, list) and not set(words) <= set(choices)
