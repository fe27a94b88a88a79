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
from dflash_deploy.explain.secret import may_be_repeated, shown
from dflash_deploy.explain.serving import Serving
from dflash_deploy.explain.variables import needs_shell
from dflash_deploy.explain.wanted import request_of, variables
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
    if serving.target and serving.entry is None and needs_shell(serving.target):
        return Right(unset(shown(serving.target)))
    made = _with_own_values(serving)
    newest = Version(serving.engine.releases[-1].version)
    if isinstance(made.plan, EngineError) and serving.version != newest:
        made = _with_own_values(serving.at(newest))
    if isinstance(made.plan, UnknownModel) and (line := _adding(serving)):
        return Right(UnknownModel(made.plan.message, hint=line))
    return made


def unset(word: str) -> UsageError:
    """The model is a variable that the text does not set."""
    return UsageError(
        f"{word} is filled in by a shell, and nothing here says with what",
        hint="the same command with the model's hub id in its place",
    )


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
    made: Plan | DFlashError = DoesNotFit("")
    for request in _smaller(serving, without):
        made = _made(serving.registry, request, serving.hardware)
        if not isinstance(made, DoesNotFit):
            break
    if isinstance(made, Plan):
        made = msgspec.structs.replace(made, env=dict(variables(serving)) | made.env)
    return made


def _smaller(serving: Serving, without: frozenset[str]) -> Iterator[Request]:
    """What a command asks of its cards, then less of it; each with its share of their memory, then
    with the engine's own.
    """
    own, shared = request_of(serving, without), request_of(serving, without | {"memory_fraction"})
    for pair in zip(_less(own), _less(shared), strict=True):
        yield from dict.fromkeys(pair)


def _less(request: Request) -> Iterator[Request]:
    yield request
    yield replace(request, tensor_parallel=None)
    yield replace(request, tensor_parallel=None, context=None)
    yield replace(request, tensor_parallel=None, context=None, concurrency=None)
