"""Settings that mean the same on every engine."""

from __future__ import annotations

import json
from collections.abc import Iterator

from dflash_deploy.engines.spelling import Setting, setting, switch
from dflash_deploy.flag_tables import Given, flag_table, parse
from dflash_deploy.json_options import in_one, together
from dflash_deploy.request import RANK, Choice, Resolution
from dflash_deploy.situation import flag_for


def why(resolution: Resolution, name: str) -> tuple[str, str | None]:
    """The reason and the source that the resolution gave for a choice."""
    choice = next(choice for choice in resolution.choices if choice.name == name)
    return choice.why, choice.source


def address(resolution: Resolution) -> Iterator[Setting]:
    request = resolution.request
    yield setting("host", request.host, "this machine only, unless --host says otherwise")
    default = "asked for" if request.port else "the engine's own default"
    yield setting("port", port(resolution), default)


def port(resolution: Resolution) -> int:
    return resolution.request.port or resolution.engine.port


def draft_path(resolution: Resolution) -> str:
    """A folder for a draft that is here already, else its hub id."""
    return resolution.draft_path or resolution.draft.id


def draft_revision(resolution: Resolution) -> Iterator[Setting]:
    if resolution.draft_revision:
        why = "the revision the evidence is for"
        yield setting("draft_revision", resolution.draft_revision, why)


def parsers(resolution: Resolution) -> Iterator[Setting]:
    found, family = resolution.parsers, resolution.entry.target.family
    if found and found.reasoning:
        yield setting("reasoning_parser", found.reasoning, f"the format of {family}")
    if found and found.tool:
        yield setting("tool_parser", found.tool, f"the format of {family}")


def target(resolution: Resolution) -> str:
    """A folder for weights that are here already, else the hub id the engine fetches."""
    return resolution.target_path or resolution.entry.id


def target_revision(resolution: Resolution) -> Iterator[Setting]:
    if resolution.weights.revision and not resolution.target_path:
        yield setting("revision", resolution.weights.revision, "the revision the evidence is for")


def limits(resolution: Resolution) -> Iterator[Setting]:
    yield setting("context", resolution.context, *why(resolution, "context"))
    yield setting("concurrency", resolution.concurrency, *why(resolution, "concurrency"))


def tensor_parallel(resolution: Resolution) -> Iterator[Setting]:
    if resolution.tensor_parallel > 1:
        reasons = why(resolution, "tensor_parallel")
        yield setting("tensor_parallel", resolution.tensor_parallel, *reasons)


def node(resolution: Resolution, head: str) -> Iterator[Setting]:
    """What each of several machines is told: how many, which it is, and where the first waits."""
    count = resolution.request.nodes
    if count > 1:
        yield setting("nodes", count, "asked for")
        yield setting("node_rank", RANK, "0 for the node that answers clients")
        yield setting("head", head, "where the others find it")


def attention_backend(resolution: Resolution) -> Iterator[Setting]:
    recipe = resolution.recipe
    if recipe.attention_backend:
        yield setting("attention_backend", recipe.attention_backend, recipe.why, recipe.source)


def memory_fraction(resolution: Resolution) -> Iterator[Setting]:
    """Only where somebody published one: the engines' own default knows the card."""
    if resolution.memory_fraction is not None:
        why = "published for this pair: room beside the weights for the draft and its cache"
        yield setting("memory_fraction", resolution.memory_fraction, why, resolution.recipe.source)


def kv_dtype(resolution: Resolution, spellings: dict[str, str]) -> Iterator[Setting]:
    recipe, asked = resolution.recipe, resolution.request.kv_dtype
    if asked != "auto":
        yield setting("kv_dtype", spellings[asked], "asked for")
    elif recipe.kv_dtype not in (None, "auto"):
        yield setting("kv_dtype", spellings[str(recipe.kv_dtype)], recipe.why, recipe.source)


def thinking(resolution: Resolution) -> Iterator[Setting]:
    """The server's default mode, beside what was said after `--` for the chat template.

    A request's own `chat_template_kwargs` win over both.
    """
    modes = resolution.entry.target.thinking
    if modes is None or modes.template_key is None or resolution.draft.thinking is None:
        return
    flag = template_flag(resolution)
    said = said_of(resolution, flag) if flag else {}
    kwargs = {modes.template_key: resolution.draft.thinking == "on"} | said
    yield setting("template_defaults", json.dumps(kwargs), *why(resolution, "thinking"))


def remote_code(resolution: Resolution) -> Iterator[Setting]:
    if resolution.entry.target.remote_code == "required":
        yield switch("remote_code", "the target's repository holds its code; you agreed to run it")


def draft_backend(resolution: Resolution) -> Setting | None:
    """The draft's attention backend, where the recipe or a rule of the engine names one."""
    recipe, fix = resolution.recipe, resolution.fix("draft_attention_backend")
    if recipe.draft_attention_backend:
        name = recipe.draft_attention_backend
        return setting("draft_attention_backend", name, recipe.why, recipe.source)
    return setting(fix.setting, fix.value, fix.why, fix.source) if fix else None


def said_of(resolution: Resolution, option: str) -> dict[str, object]:
    """What was said after `--` for an option whose JSON object the plan writes itself."""
    return together(item for item in given(resolution) if item.flag == option)


def further(resolution: Resolution, but: str | None = None) -> Iterator[str]:
    """The words after `--`, without those of options whose objects the plan writes itself."""
    own = {but} | ({template_flag(resolution)} if any(thinking(resolution)) else set())
    for words in in_one(item for item in given(resolution) if item.flag not in own):
        yield from words


def template_flag(resolution: Resolution) -> str | None:
    return flag_for(resolution.engine, "template_defaults", resolution.version)


def given(resolution: Resolution) -> list[Given]:
    table = flag_table(resolution.request.engine, resolution.version)
    return parse(table, resolution.request.engine_args)


def fixes(resolution: Resolution) -> Iterator[Setting]:
    """What the engine's rules add, but for what is part of the draft's own settings."""
    for fix in resolution.fixes:
        if fix.setting != "draft_attention_backend":
            yield Setting(fix.setting, (fix.value,) if fix.value else (), fix.why, fix.source)


def variables(resolution: Resolution) -> dict[str, str]:
    """Environment variables that the engine's rules add."""
    return {item.setting: item.value or "" for item in resolution.variables}


def variable_reasons(resolution: Resolution) -> dict[str, str]:
    return {item.setting: item.why for item in resolution.variables}


def as_choices(settings: tuple[Setting, ...], known: set[str]) -> Iterator[Choice]:
    """Settings as choices of the plan, but for those the resolution already explained."""
    for item in settings:
        if item.name not in known:
            yield Choice(item.name, item.value, item.why, item.source)
