"""Recipes of vllm-project/recipes, both ways: a DFlash mode as a recipe of ours, a plan as theirs.

Their file has `model` (id, base arguments, least release), `features` (named lists of arguments;
`spec_decoding` with one list or several `modes`) and `variants` of weights. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from packaging.version import Version

from dflash_deploy.engine_schema import Engine
from dflash_deploy.errors import RegistryError, Unsupported
from dflash_deploy.flag_tables import Given, flag_table, json_object, parse
from dflash_deploy.plan import Plan
from dflash_deploy.reach import is_version
from dflash_deploy.registry import Entry, Registry
from dflash_deploy.rules import first_release
from dflash_deploy.schema import Draft, KvDtype, Model, Recipe, When

_KV: dict[str, KvDtype] = {"fp8": "fp8", "fp8_e4m3": "fp8", "bfloat16": "bf16"}
_FRACTION = re.compile(r"0?\.\d{1,6}|1(\.0*)?")
_OURS = {"reasoning_parser", "tool_parser", "auto_tool_choice", "template_defaults", "context"}
"""What an entry of ours knows by itself, or a user says."""


@dataclass(frozen=True)
class Mode:
    """One way of speculating that a recipe offers."""

    name: str
    config: dict[str, Any]
    """The speculative config."""
    args: tuple[str, ...]
    """The mode's other arguments."""


@dataclass(frozen=True)
class Imported:
    """An overlay made from a recipe, and what of the recipe did not come along."""

    model: Model
    target: str
    file: str
    left_out: tuple[str, ...]


def imported(document: Any, registry: Registry, source: str) -> Imported:
    """The overlay for a recipe's DFlash mode. `source` is how the recipe is called.

    Raises RegistryError for a file that is no such recipe, has no DFlash mode, or is about a
    target or a draft that the registry does not know.
    """
    target, least, base = _model(document, source)
    modes = list(dflash_modes(document))
    if not modes:
        raise RegistryError(f"{source}: the recipe has no DFlash mode", hint="dflash registry add")
    made = [_draft(registry, target, mode, source) for mode in modes]
    entry, engine = made[0][0], registry.engines["vllm"]
    recipes: list[Recipe] = []
    left: list[str] = []
    for mode, (_, draft) in zip(modes, made, strict=True):
        recipe, ignored = _recipe(mode, base, draft, engine, source)
        floor = first_release(engine, entry.target, draft)
        if floor is None:
            raise RegistryError(f"{source}: no known release of vLLM serves {draft.id}")
        if least and Version(least) < Version(floor.version):
            left.append(f"min_vllm_version {least}: this pair needs {floor.version}: before it,"
                        f" {floor.because}")  # fmt: skip
        elif least and Version(least) > Version(floor.version):
            when = When(engine="vllm", version=f">={least}")
            recipe = Recipe(**{**{f: getattr(recipe, f) for f in recipe.__struct_fields__},
                               "when": when})  # fmt: skip
        recipes.append(recipe)
        left += ignored
    model = Model(extends=entry.id, recipes=recipes)
    return Imported(model, entry.id, f"models/{entry.id}-recipe.yaml", tuple(left))


def dflash_modes(document: Any) -> Iterator[Mode]:
    """The modes of `features.spec_decoding` whose method is dflash, in their order."""
    features = document.get("features")
    feature = features.get("spec_decoding") if isinstance(features, dict) else None
    if not isinstance(feature, dict):
        return
    modes = feature.get("modes")
    named = modes.items() if isinstance(modes, dict) else [("spec_decoding", feature)]
    for name, mode in named:
        args = _words(mode.get("args")) if isinstance(mode, dict) else ()
        given = parse(None, args)
        config: dict[str, Any] = {}
        for item in given:
            if item.flag in ("--speculative-config", "-sc") and item.words:
                config = json_object(item.words[0])
        if str(config.get("method", "")).lower() == "dflash":
            others = (item for item in given if item.flag not in ("--speculative-config", "-sc"))
            yield Mode(str(name), config, tuple(_flat(others)))


def as_recipe(plan: Plan, entry: Entry, least: str | None = None) -> dict[str, Any]:
    """A plan for vLLM as a recipe of theirs; `imported` reads the same values back.

    `least` is the first release that serves the pair; the plan's own where it is not known.

    Raises Unsupported for a plan of another engine.
    """
    if plan.engine != "vllm":
        raise Unsupported(
            f"a recipe of vLLM cannot say what {plan.engine} is told", hint="--engine vllm"
        )
    given = parse(flag_table("vllm", Version(plan.version)), plan.argv[3:])
    speculation = [item for item in given if item.flag == "--speculative-config"]
    own = {"--host", "--port", "--served-model-name", "--speculative-config"}
    target, minimum = entry.target, entry.target.minimum
    made: dict[str, Any] = {
        "meta": {
            "title": plan.model.rpartition("/")[2],
            "slug": entry.name,
            "provider": plan.model.partition("/")[0],
            "description": f"{plan.model} with the DFlash draft {plan.draft.id}",
            "tasks": ["text"],
        },
        "model": {
            "model_id": plan.model,
            "min_vllm_version": least or plan.version,
            "parameter_count": target.parameters,
            "context_length": target.context,
            "base_args": list(_flat(item for item in given if item.flag not in own)),
            "base_env": dict(plan.env),
        },
        "features": {
            "spec_decoding": {
                "description": f"blocks of {plan.block_size}: DFlash with {plan.draft.id}",
                "default_mode": "dflash",
                "modes": {"dflash": {"label": "DFlash", "args": list(_flat(speculation))}},
            }
        },
        "opt_in_features": ["spec_decoding"],
        "variants": {"default": {"precision": plan.target.name}},
    }
    if minimum and minimum.memory_gib:
        made["variants"]["default"]["vram_minimum_gb"] = minimum.memory_gib
    return made


def _model(document: Any, source: str) -> tuple[str, str | None, tuple[str, ...]]:
    model = document.get("model") if isinstance(document, dict) else None
    if not isinstance(model, dict) or not isinstance(model.get("model_id"), str):
        raise RegistryError(
            f"{source}: no recipe of vllm-project/recipes: it has no `model.model_id`",
            hint="a file of its models/ folder",
        )
    least = str(model.get("min_vllm_version") or "")
    return model["model_id"], least if is_version(least) else None, _words(model.get("base_args"))


def _draft(registry: Registry, target: str, mode: Mode, source: str) -> tuple[Entry, Draft]:
    """The registry's own draft that a mode names."""
    name = str(mode.config.get("model", ""))
    found = registry.names.get(target.lower())
    if found is None:
        raise RegistryError(
            f"{source}: {target} is not in the registry",
            hint=f"dflash registry add {name or 'DRAFT'} --target {target}, then this again",
        )
    entry = registry.entries[found]
    draft = next((d for d in entry.model.drafts if d.id.lower() == name.lower()), None)
    if draft is None:
        raise RegistryError(
            f"{source}: {entry.id} has no draft {name or '(none is named)'} in the registry",
            hint=f"dflash registry add {name or 'DRAFT'} --target {entry.id}, then this again",
        )
    return entry, draft


def _recipe(
    mode: Mode, base: tuple[str, ...], draft: Draft, engine: Engine, source: str
) -> tuple[Recipe, list[str]]:
    """Engine-neutral values of a mode, and the arguments that were not taken over."""
    tokens = mode.config.get("num_speculative_tokens")
    if not isinstance(tokens, int) or isinstance(tokens, bool) or tokens < 1:
        said = f"{tokens!r} is no number of tokens" if tokens is not None else "it is not said"
        raise RegistryError(f"{source}: mode {mode.name}: num_speculative_tokens: {said}")
    meanings = {spelling.flag: spelling.setting for spelling in engine.spellings}
    values: dict[str, Any] = {}
    flags: list[str] = []
    left: list[str] = []
    table = flag_table("vllm", Version(engine.releases[-1].version))
    for item in parse(table, (*base, *mode.args)):
        meaning = meanings.get(item.flag or "", "")
        word = item.words[0] if item.words else ""
        if meaning == "attention_backend":
            values[meaning] = word.lower()
        elif meaning == "memory_fraction" and _FRACTION.fullmatch(word):
            values[meaning] = float(word)
        elif meaning == "kv_dtype" and word in _KV:
            values["kv_dtype"] = _KV[word]
        elif meaning == "concurrency" and word.isdecimal():
            values["max_concurrency"] = int(word)
        elif item.flag in engine.allowed_flags:
            flags.append("=".join((item.flag, *item.words)))
        elif meaning not in _OURS:
            left.append(f"{' '.join((item.flag or '', *item.words)).strip()}: {_why(item)}")
    backend = mode.config.get("attention_backend")
    block = tokens + 1
    recipe = Recipe(
        name=re.sub(r"[^\w.-]+", "-", f"imported-{mode.name}"),
        when=When(engine="vllm"),
        draft=draft.id,
        block_size=block,
        draft_attention_backend=str(backend).lower() if backend else None,
        flags=flags,
        why=f"{tokens} draft tokens are blocks of {block}; taken from a recipe of vLLM",
        source=source,
        **values,
    )
    return recipe, left


def _why(item: Given) -> str:
    if item.flag == "--trust-remote-code":
        return "remote code is for an entry to require and for you to agree to"
    if not item.known:
        return "no such option in the newest release"
    return "a plan decides it, or an overlay may not set it"


def _words(value: Any) -> tuple[str, ...]:
    return tuple(str(word) for word in value) if isinstance(value, list) else ()


def _flat(given: Any) -> Iterator[str]:
    for item in given:
        yield from ((item.flag, *item.words) if item.flag else item.words)
