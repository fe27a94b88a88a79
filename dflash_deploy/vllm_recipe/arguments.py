"""vLLM's arguments as the fields of a recipe of ours, and those that have none."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from packaging.version import Version

from dflash_deploy.choose import find_parsers
from dflash_deploy.engine_schema import Engine
from dflash_deploy.flag_tables import Given, flag_table, parse
from dflash_deploy.registry import Entry
from dflash_deploy.schema import KvDtype, Parsers
from dflash_deploy.vllm_recipe.rest import LeftOut

_KV: dict[str, KvDtype] = {"fp8": "fp8", "fp8_e4m3": "fp8", "bfloat16": "bf16", "auto": "auto"}
_FRACTION = re.compile(r"0?\.\d{0,5}[1-9]\d{0,5}", re.ASCII)
_COUNT = re.compile(r"[1-9]\d{0,8}", re.ASCII)
_WORD = re.compile(r"[A-Za-z0-9][\w.-]{0,99}", re.ASCII)


@dataclass(frozen=True)
class Taken:
    """What a list of arguments comes to, in engine-neutral words."""

    values: dict[str, Any] = field(default_factory=dict)
    flags: dict[str, str] = field(default_factory=dict)
    left: list[LeftOut] = field(default_factory=list)


def take(args: Iterable[str], entry: Entry, engine: Engine) -> Taken:
    taken = Taken()
    for item in parse(flag_table("vllm", Version(engine.releases[-1].version)), args):
        flag, word = item.flag or "", " ".join(item.words)
        meaning = engine.meanings.get(flag, "")
        if (found := _field(meaning, word)) is not None:
            taken.values.update(found)
        elif _is_flag(item, engine):
            taken.flags[flag] = "=".join((flag, *item.words))
        elif not _said(meaning, word, entry):
            taken.left.append(LeftOut(flag, shlex.join(item.words), _why(item, meaning)))
    return taken


def _field(meaning: str, word: str) -> dict[str, Any] | None:
    """A recipe's field and its value; None for what has none."""
    if meaning == "attention_backend" and plain(word):
        return {meaning: backend(word)}
    if meaning == "memory_fraction" and _FRACTION.fullmatch(word):
        return {meaning: float(word)}
    if meaning == "kv_dtype" and word in _KV:
        return {meaning: _KV[word]}
    if meaning == "concurrency" and _COUNT.fullmatch(word):
        return {"max_concurrency": int(word)}
    return None


def _said(meaning: str, word: str, entry: Entry) -> bool:
    """Whether the target's entry says the same by itself."""
    parsers = find_parsers(entry, "vllm") or Parsers(engine="vllm")
    return {
        "remote_code": entry.target.remote_code == "required",
        "reasoning_parser": parsers.reasoning == word,
        "tool_parser": parsers.tool == word,
        "auto_tool_choice": parsers.tool is not None,
    }.get(meaning, False)


def _is_flag(item: Given, engine: Engine) -> bool:
    """Whether an overlay may hand it on as it is: a switch, or one plain word."""
    if item.flag not in engine.allowed_flags or item.row is None:
        return False
    return not item.words if item.row.takes == "none" else plain(" ".join(item.words))


def plain(word: object) -> TypeGuard[str]:
    return isinstance(word, str) and bool(_WORD.fullmatch(word))


def backend(word: str) -> str | None:
    """vLLM takes any case, and `auto` for its own choice."""
    return None if word.lower() == "auto" else word.lower()


def _why(item: Given, meaning: str) -> str:
    if meaning == "remote_code":
        return "remote code is for an entry to require and for you to agree to"
    if meaning == "context":
        return "--context says it"
    if meaning in ("reasoning_parser", "tool_parser", "auto_tool_choice"):
        return "the entry says otherwise, or nothing"
    if not item.known:
        return "no such option in the newest release"
    return "a plan decides it, or an overlay may not set it"
