"""The keys of vLLM's speculative config, one by one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from packaging.version import Version

from dflash_deploy.explain import speculation
from dflash_deploy.explain.judged import Judged, as_part
from dflash_deploy.explain.pair import judge_draft
from dflash_deploy.explain.seen import Seen
from dflash_deploy.flag_tables import Given, first_with, last_with
from dflash_deploy.json_options import SPECULATION

_TOKENS = re.compile(r"[1-9]\d{0,8}")


@dataclass(frozen=True)
class _Key:
    """One key, as it was written."""

    given: Given
    name: str
    value: object

    @property
    def option(self) -> str:
        return f"{SPECULATION}.{self.name}"

    @property
    def part(self) -> str:
        return speculation.part(self.given, self.name, self.value)


def judge_keys(given: Given, seen: Seen) -> Iterator[Judged]:
    """The first thing to be said of each key, unless a rule says it."""
    said = speculation.keys(given)
    if not said:
        yield Judged(as_part(given), "wrong", _no_json("".join(given.words)))
    for name, value in said.items():
        key = _Key(given, name, value)
        if seen.serving.meaning(key.option) not in seen.spoken:
            yield from _JUDGES.get(name, _other)(key, seen)


def _no_json(word: str) -> str:
    """What is wrong with it, where a shell did not take its quotes."""
    try:
        json.loads(word)
    except (ValueError, RecursionError) as error:
        if isinstance(error, json.JSONDecodeError) and '"' in word:
            return f"this is no JSON: {error.msg}, at character {error.pos + 1}"
    return ("this is no JSON object: put it between single quotes, so that the shell leaves it"
            " whole")  # fmt: skip


def backend_named(part: str, setting: str, value: str, seen: Seen) -> Judged:
    planned = seen.planned.get(setting)
    if planned == (value,):
        return Judged(part, "fine", "the one that goes with this pair and card")
    if planned:
        return Judged(part, "note", f"the recipe for this pair takes {planned[0]}")
    return Judged(part, "unneeded", f"{seen.serving.name} chooses the backend by the card")


def _method(key: _Key, _: Seen) -> Iterator[Judged]:
    if key.value == "dflash":
        yield Judged(key.part, "fine", "DFlash 1 and 2 alike")
    else:
        yield Judged(key.part, "wrong", 'DFlash 1 and 2 are both "dflash"')


def _model(key: _Key, seen: Seen) -> Iterator[Judged]:
    yield judge_draft(key.part, seen.serving)


def _tokens(key: _Key, seen: Seen) -> Iterator[Judged]:
    if not _TOKENS.fullmatch(str(key.value)):
        yield Judged(key.part, "wrong", "not a number of tokens that it takes")
    elif "block_size" not in seen.spoken:
        yield Judged(key.part, "fine", f"a block of {seen.serving.block_size}, with the token that"
                     " it starts from")  # fmt: skip


def _backend(key: _Key, seen: Seen) -> Iterator[Judged]:
    yield backend_named(key.part, "draft_attention_backend", str(key.value), seen)


def _revision(key: _Key, _: Seen) -> Iterator[Judged]:
    yield Judged(key.part, "fine", "pins the draft")


def _other(key: _Key, seen: Seen) -> Iterator[Judged]:
    if key.given.knows(key.option):
        yield Judged(key.part, "fine", "accepted by this release")
        return
    name, version = seen.serving.name, seen.serving.version
    first, last = first_with(name, key.option), last_with(name, key.option)
    source = f"{name} {version} config/speculative.py"
    if first and Version(first) > version:
        yield Judged(key.part, "wrong", f"only from {first} on: this release rejects it", source)
    elif last and Version(last) < version:
        yield Judged(key.part, "stale", f"gone after {last}: this release rejects it", source)
    else:
        yield Judged(key.part, "wrong", "vLLM knows no such key and rejects it", source)


_JUDGES: dict[str, Callable[[_Key, Seen], Iterator[Judged]]] = {
    "method": _method, "model": _model, "num_speculative_tokens": _tokens,
    "attention_backend": _backend, "revision": _revision,
}  # fmt: skip
