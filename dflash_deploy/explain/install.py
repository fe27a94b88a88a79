"""Install lines: what they install, and the release that makes them needless."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.requirements import InvalidRequirement, Requirement
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
_FOLDER = re.compile(r"\.\[(vllm|sglang)\]")
_TRANSFORMERS = re.compile(r"transformers\s*==.*")
_RELEASED_IN = {
    ("sglang", "16818"): "0.5.11", ("sglang", "20547"): "0.5.11", ("sglang", "22077"): "0.5.11",
    ("sglang", "23000"): "0.5.14", ("vllm", "40898"): "0.26.0",
}  # fmt: skip
"""The release that has what a pull request was for."""
_GEMMA = ("vllm", "41703")
_EARLY_BY_UV = (
    "uv before 0.12 takes 0.5.9 here, which has no DFlash: later releases need a package that is a"
    " pre-release, which it leaves out unless told --prerelease=allow"
)


def judge_install(command: Command, registry: Registry) -> Iterator[Judged]:
    """Builds of pull requests and nightlies; pins of the engines. Other packages are left out."""
    text = " ".join(command.argv)
    built = _GIT.findall(text)
    if len(both := _installed(command)) > 1:
        yield Judged(" ".join(both), "wrong", "each pins its own torch and kernels: they do not go"
                     " into one environment")  # fmt: skip
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
        if (asked := _engine(word)) is not None:
            yield _asked(word, asked, command, registry.engines[asked.name])
        elif found := _FOLDER.fullmatch(word):
            yield Judged(word, "unneeded", f"the extra of a checkout: {found[1]} alone serves")
        elif _TRANSFORMERS.fullmatch(word):
            yield Judged(word, "unneeded", "for the drafts' own Python code: the embedded engine"
                         " here runs none of it, and brings its own")  # fmt: skip


def install_line(command: Command, registry: Registry) -> str | None:
    """The lines to use instead, one for each engine that the command installs."""
    names = _installed(command)
    if names:
        newest = {name: registry.engines[name].releases[-1].version for name in names}
        return "\n".join(f"dflash engine install {name}=={newest[name]}" for name in names)
    named = any("transformers" in word for word in command.argv)
    return "uv pip install 'dflash-deploy[local]'" if named else None


def _installed(command: Command) -> list[str]:
    """The engines, in the order of the words."""
    text = " ".join(command.argv).replace("wheels.vllm.ai", "")
    if f"refs/pull/{_GEMMA[1]}" in text:
        return ["sglang"]
    # a flash-attention or kernel package of an engine is not the engine
    return list(dict.fromkeys(re.findall(r"(?<![\w-])(sglang|vllm)(?![\w-])", text)))


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


def _engine(word: str) -> Requirement | None:
    """An engine as pip takes it; None for any other word."""
    name = re.match(r"(?:vllm|sglang)(?=$|[^\w.-])", word)
    try:
        return Requirement(word) if name else None
    except InvalidRequirement:
        return Requirement(name[0]) if name else None


def _asked(word: str, asked: Requirement, command: Command, engine: Engine) -> Judged:
    pins = [spec.version for spec in asked.specifier if spec.operator == "=="]
    if pins and is_version(pins[0]):
        return _pin(word, Version(pins[0]), engine)
    if re.search("[=<>~]", word) and not asked.specifier:
        return Judged(word, "wrong", "no version")
    known = [Version(release.version) for release in engine.releases]
    allowed = [version for version in known if version in asked.specifier]
    if not allowed:
        return Judged(word, "wrong", f"none of these has DFlash: {engine.first_release} is the"
                      " first to")  # fmt: skip
    early = asked.name == "sglang" and not asked.specifier and command.launcher == "uv"
    if early and not any(option.startswith(("--prerelease", "--pre")) for option in command.argv):
        return Judged(word, "wrong", _EARLY_BY_UV)
    which = "the newest of these" if asked.specifier else "whatever is newest"
    pinned = f"{asked.name}=={allowed[-1]}"
    return Judged(word, "note", f"{which} on the day: pin it, as {pinned}")


def _pin(part: str, release: Version, engine: Engine) -> Judged:
    newest = engine.releases[-1].version
    if as_release(release) < Version(engine.first_release):
        return Judged(part, "wrong", f"has no DFlash: {engine.first_release} is the first to")
    said = findings(Situation(engine=engine, version=release, target=None, draft=None))
    refusal = next((item for item in said if item.severity == "refuse"), None)
    if refusal:
        return Judged(part, "wrong", refusal.message, refusal.source)
    if release > Version(newest):
        return Judged(part, "note", f"newer than any release known here ({newest})")
    return Judged(part, "fine", "a release")
