"""The right command for what somebody wanted, or the reason why there is none."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

import msgspec
from packaging.version import Version

from dflash_deploy.errors import (
    DFlashError,
    DoesNotFit,
    EngineError,
    UnknownModel,
    Unsupported,
    UsageError,
)
from dflash_deploy.explain.judged import Judged, as_part
from dflash_deploy.explain.ruled import said_part
from dflash_deploy.explain.secret import may_be_repeated
from dflash_deploy.explain.serving import Serving
from dflash_deploy.explain.wanted import memory_words, request_of, variables
from dflash_deploy.flag_faults import fault
from dflash_deploy.flag_tables import Given
from dflash_deploy.hardware import Hardware
from dflash_deploy.plan import Plan, make_plan
from dflash_deploy.registry import Registry
from dflash_deploy.request import Request
from dflash_deploy.schema import EngineName

_MOST_REFUSED = 4
"""Settings that are left out one after the other, before a command is given up."""
_MOST_TRIED = 80
"""Settings that are tried for each of them; no published command has as many."""


@dataclass(frozen=True)
class Right:
    plan: Plan | DFlashError
    refused: tuple[Judged, ...] = ()
    """Settings that the plan goes without, for no plan takes them."""


def right_plan(serving: Serving) -> Right:
    """The plan for the pair that a command names, or the reason why there is none.

    Parallelism, address, context, load, KV dtype, variables and a block the draft can do are
    kept, unless a rule or the plan itself refuses them; options that the plan does not decide and
    that this release knows are passed on. A release that cannot serve the pair gives way to the
    newest.
    """
    made = _with_own_values(serving)
    newest = Version(serving.engine.releases[-1].version)
    if isinstance(made.plan, EngineError) and serving.version != newest:
        made = _with_own_values(serving.at(newest))
    if isinstance(made.plan, UnknownModel) and (line := _adding(serving)):
        return Right(UnknownModel(made.plan.message, hint=line))
    return made


def _adding(serving: Serving) -> str | None:
    """The command that makes a pair known, of which the draft at least is named."""
    draft, target = serving.draft_id, serving.target
    if draft is None or not all(map(may_be_repeated, (draft, target or ""))):
        return None
    words = ["dflash", "registry", "add", draft]
    if target and not serving.target_path:
        words += ["--target", target]
    return shlex.join(words)


def misfit(serving: Serving) -> DoesNotFit | None:
    """Why the pair, on so many cards and with such a context, would not start here."""
    made = _made(serving.registry, request_of(serving), serving.hardware)
    return made if isinstance(made, DoesNotFit) else None


def cards_part(serving: Serving) -> str:
    """What a misfit is about: more cards than there are, by the option that asks for them."""
    cards, wanted = len(serving.hardware.cards), serving.number("tensor_parallel") or 1
    said = [g for g in serving.final if serving.meaning(g.flag) == "tensor_parallel"]
    return as_part(said[-1]) if said and wanted > cards else "the cards"


def plan_for(
    registry: Registry, model: str, engine: EngineName, hardware: Hardware
) -> Plan | DFlashError:
    """The plan for a model named outside a server's command."""
    return _made(registry, Request(model=model, engine=engine), hardware)


def _made(registry: Registry, request: Request, hardware: Hardware) -> Plan | DFlashError:
    try:
        return make_plan(registry, request, hardware)
    except DFlashError as error:
        return error


def _with_own_values(serving: Serving) -> Right:
    """Without what a plan refuses, one setting after the other."""
    made, without, refused = _planned(serving, frozenset()), frozenset[str](), list[Judged]()
    while _is_refusal(made) and len(refused) < _MOST_REFUSED:
        found = next(_better(serving, made, without), None)
        if found is None:
            break
        setting, better = found
        part = said_part(setting, serving)
        refused += [Judged(part, "wrong", str(made))] if part else []
        without, made = without | {setting}, better
    return Right(made, tuple(refused))


def _is_refusal(made: Plan | DFlashError) -> bool:
    return isinstance(made, (UsageError, Unsupported)) and not isinstance(made, DoesNotFit)


def _better(
    serving: Serving, made: Plan | DFlashError, without: frozenset[str]
) -> Iterator[tuple[str, Plan | DFlashError]]:
    """The settings without which it would be a plan, or another refusal."""
    names = (name for name in serving.settings if name not in without)
    for setting in islice(names, _MOST_TRIED):
        better = _planned(serving, without | {setting})
        if isinstance(better, Plan) or str(better) != str(made):
            yield setting, better


def _planned(serving: Serving, without: frozenset[str]) -> Plan | DFlashError:
    request = request_of(serving, without)
    made = _made(serving.registry, request, serving.hardware)
    for smaller in _smaller(request):
        if isinstance(made, DoesNotFit):
            request, made = smaller, _made(serving.registry, smaller, serving.hardware)
    share = () if "memory_fraction" in without or not isinstance(made, Plan) else (
        tuple(memory_words(serving, made)))  # fmt: skip
    if share:
        own = replace(request, engine_args=(*request.engine_args, *share))
        again = _made(serving.registry, own, serving.hardware)
        made = made if isinstance(again, DoesNotFit) else again
    if isinstance(made, Plan):
        made = msgspec.structs.replace(made, env=dict(variables(serving)) | made.env)
    return made


def _smaller(request: Request) -> Iterator[Request]:
    """Less of what a command asks of its cards."""
    yield replace(request, tensor_parallel=None)
    yield replace(request, tensor_parallel=None, context=None)
    yield replace(request, tensor_parallel=None, context=None, concurrency=None)


def _request(serving: Serving) -> Request:
    entry, draft = serving.entry, serving.draft
    refused = spoken_of(serving, "refuse")

    def number(setting: str) -> int | None:
        return None if setting in refused else serving.number(setting)

    port = serving.number("port") or (
        serving.command.container.port if serving.command.container else None
    )
    return Request(
        model=draft.id if draft else entry.id if entry else serving.target or "",
        engine=serving.name,
        engine_version=str(serving.version),
        host=_host(serving),
        port=port if port and port < 1 << 16 else None,
        block_size=_block(serving),
        concurrency=number("concurrency"),
        context=number("context"),
        tensor_parallel=number("tensor_parallel"),
        kv_dtype="auto" if "kv_dtype" in refused else serving.kv_dtype,
        target_path=serving.target_path,
        trust_remote_code=bool(entry and entry.target.remote_code == "required"),
        api_key_env=API_KEY_ENV if _asks_for_key(serving) else None,
        engine_args=tuple(word for given in _kept(serving, refused) for word in given),
    )


def _host(serving: Serving) -> str:
    """Inside a container every address is meant, and outside the published port decides."""
    said = serving.settings.get("host", ())
    inside = serving.command.container is not None
    plain = bool(said) and may_be_repeated(said[0]) and not inside
    return said[0].strip("[]") if plain else "127.0.0.1"


def _block(serving: Serving) -> int | None:
    """The block that was said, if the draft can do it."""
    said, trained = serving.said_block, serving.draft.block_size if serving.draft else None
    return said if said and trained and 2 <= said <= trained else None


def _asks_for_key(serving: Serving) -> bool:
    in_argv = any(given.flag == "--api-key" for given in serving.given)
    return in_argv or "VLLM_API_KEY" in serving.command.env


def _kept(serving: Serving, refused: frozenset[str]) -> Iterator[tuple[str, ...]]:
    """Options of the user's own that no plan decides, if this release knows them."""
    for given in serving.given:
        if given.flag is None or not given.known or given.flag in _OTHERWISE_SAID | RUNS_CODE:
            continue
        if serving.meaning(given.flag) in _PLANNED | refused:
            continue
        if not is_secret_option(given.flag) and _is_right(given):
            yield _written(given)
    yield from _kept_keys(serving, refused)
    yield from _kept_commits(serving)


def _kept_keys(serving: Serving, refused: frozenset[str]) -> Iterator[tuple[str, ...]]:
    """The user's own keys of vLLM's speculative config, but for those that a plan decides."""
    for given in serving.given:
        for key, value in speculation.keys(given).items():
            option, word = f"{SPECULATION}.{key}", json_options.text(value)
            if key in speculation.PLANNED or serving.meaning(option) in refused:
                continue
            if given.knows(option) and may_be_repeated(word):
                yield option, word


def _kept_commits(serving: Serving) -> Iterator[tuple[str, ...]]:
    """The user's own revisions, where the registry knows none."""
    entry, draft = serving.entry, serving.draft
    known = (
        ("revision", entry and entry.target.weights[0].revision),
        ("draft_revision", draft and draft.revision),
    )
    for setting, revision in known:
        said = serving.settings.get(setting, ())
        flag = flag_for(serving.engine, setting, serving.version)
        if not revision and flag and said and may_be_repeated(said[0]):
            yield flag, said[0]


def _is_right(given: Given) -> bool:
    return fault(given) is None and all(map(may_be_repeated, (given.as_written, *given.words)))


def _written(given: Given) -> tuple[str, ...]:
    """In full, but for a dotted option, which is as it was."""
    option = given.as_written.partition("=")[0]
    return (option if "." in option else given.flag or option, *given.words)


def _memory(serving: Serving, plan: Plan) -> Iterator[str]:
    """The user's own share of the card's memory, where the plan leaves it to the engine."""
    if "memory_fraction" in planned(serving, plan):
        return
    for given in serving.given:
        if serving.meaning(given.flag) == "memory_fraction" and given.known and _is_right(given):
            yield from _written(given)


def _variables(serving: Serving) -> Iterator[tuple[str, str]]:
    """The user's own, but for secrets, dead switches and folders of a container."""
    for name, value in serving.command.env.items():
        dropped = is_secret_variable(name) or name in serving.dead_switches
        if not dropped and not serving.is_inside(value) and may_be_repeated(value):
            yield name, value
