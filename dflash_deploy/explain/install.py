"""Install lines: what they install, and the release that makes them needless."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.version import Version

from dflash_deploy.engine_schema import Engine
from dflash_deploy.explain.judged import Judged
from dflash_deploy.explain.read import Command
from dflash_deploy.reach import as_release, is_version
from dflash_deploy.registry import Registry
from dflash_deploy.rules import findings
from dflash_deploy.situation import Situation

_GIT = re.compile(r"git\+\S*github\.com/[\w.-]+/(vllm|sglang)(?:\.git)?(?:@([\w./-]+))?")
_PULL = re.compile(r"refs/pull/(\d+)")
_RELEASE = re.compile(r"(vllm|sglang)(?:\[[^\]]*\])?\s*(==|>=|~=|<=|<|>)?\s*([\w.*!+]+)?")
_FOLDER = re.compile(r"\.\[(vllm|sglang)\]")
_TRANSFORMERS = re.compile(r"transformers\s*==.*")
_RELEASED_IN = {
    ("sglang", "16818"): "0.5.11", ("sglang", "20547"): "0.5.11", ("sglang", "22077"): "0.5.11",
    ("sglang", "23000"): "0.5.14", ("vllm", "40898"): "0.26.0",
}  # fmt: skip
"""The release that has what a pull request was for."""
_GEMMA = ("vllm", "41703")


def judge_install(command: Command, registry: Registry) -> Iterator[Judged]:
    """Builds of pull requests and nightlies; pins of the engines. Other packages are left out."""
    text = " ".join(command.argv)
    built = _GIT.findall(text)
    for name, ref in built:
        yield _build(name, ref, registry.engines[name])
    if "wheels.vllm.ai/nightly" in text:
        first = registry.engines["vllm"].first_release
        yield Judged("nightly wheels", "stale", f"vLLM has DFlash in its releases since {first}:"
                     " install one, so that you know what runs")  # fmt: skip
    if {"dflash", "dflash-deploy"} & set(command.argv) or "z-lab/dflash" in text:
        yield Judged("dflash", "note", "the authors' research package and this one install a"
                     " command of the same name; ours is also dflash-deploy")  # fmt: skip
    for word in () if built else command.argv:
        if found := _RELEASE.fullmatch(word):
            yield _pin(found[1], found[2], found[3], registry.engines[found[1]])
        elif found := _FOLDER.fullmatch(word):
            yield Judged(word, "unneeded", f"the extra of a checkout: {found[1]} alone serves")
        elif _TRANSFORMERS.fullmatch(word):
            yield Judged(word, "unneeded", "for the drafts' own Python code: the embedded engine"
                         " here runs none of it, and brings its own")  # fmt: skip


def install_line(command: Command, registry: Registry) -> str | None:
    """The line to use instead, for the engine that the command installs."""
    text = " ".join(command.argv)
    named = re.search(r"sglang|vllm", text.replace("wheels.vllm.ai", ""))
    if named is None:
        return "uv pip install 'dflash-deploy[local]'" if "transformers" in text else None
    name = "sglang" if f"refs/pull/{_GEMMA[1]}" in text else named[0]
    return f"dflash engine install {name}=={registry.engines[name].releases[-1].version}"


def _build(name: str, ref: str, engine: Engine) -> Judged:
    pull = _PULL.search(ref)
    if pull is None:
        part = f"{name} from git" + (f", {ref}" if ref else "")
        first = engine.first_release
        return Judged(part, "stale", f"releases of {name} have DFlash since {first}: install one,"
                      " so that you know what runs")  # fmt: skip
    part, number = f"{name} pull request {pull[1]}", (name, pull[1])
    if number == _GEMMA:
        return Judged(part, "stale", "not merged: no release of vLLM scales Gemma's embeddings for"
                      " the draft, and this build alone did; released SGLang does",
                      "vllm-project/vllm#41703")  # fmt: skip
    since = _RELEASED_IN.get(number)
    if since:
        return Judged(part, "stale", f"a branch from before its time: {since} and later releases"
                      " have what it was for")  # fmt: skip
    return Judged(part, "stale", f"a branch, unless you know it: releases have DFlash since"
                  f" {engine.first_release}")  # fmt: skip


def _pin(name: str, comparison: str | None, version: str | None, engine: Engine) -> Judged:
    newest = engine.releases[-1].version
    part = f"{name}{comparison or ''}{version or ''}"
    if comparison != "==" or "*" in (version or ""):
        return Judged(part, "note", f"whatever is newest on the day: pin it, as {name}=={newest}")
    if not is_version(version or ""):
        return Judged(part, "wrong", "no version")
    release = Version(version or "")
    if as_release(release) < Version(engine.first_release):
        return Judged(part, "wrong", f"has no DFlash: {engine.first_release} is the first to")
    said = findings(Situation(engine=engine, version=release, target=None, draft=None))
    refusal = next((item for item in said if item.severity == "refuse"), None)
    if refusal:
        return Judged(part, "wrong", refusal.message, refusal.source)
    if release > Version(newest):
        return Judged(part, "note", f"newer than any release known here ({newest})")
    return Judged(part, "fine", "a release")
