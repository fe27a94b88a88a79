"""Commands around a server: install lines, benchmarks, and a draft run by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dflash_deploy.explain.judge import Judged
from dflash_deploy.explain.read import Command
from dflash_deploy.registry import Registry
from dflash_deploy.schema import EngineName

_PULL = re.compile(r"github\.com/([\w.-]+)/(vllm|sglang)(?:\.git)?@refs/pull/(\d+)")
_NAME = re.compile(r"(vllm|sglang)(?:\[[^\]]*\])?\s*(?:==\s*([\w.]+))?(?:\s*@\s*\S+)?")


def judge_install(command: Command, registry: Registry) -> Iterator[Judged]:
    """Builds of pull requests and nightlies: releases have had DFlash for long."""
    text = " ".join(command.argv)
    for _, name, number in _PULL.findall(text):
        yield Judged(f"{name} pull request {number}", "stale", _released(name, registry, number))
    if "wheels.vllm.ai/nightly" in text:
        first = registry.engines["vllm"].first_release
        yield Judged("nightly wheels", "stale", f"vLLM has DFlash in its releases since {first}:"
                     " install one, so that you know what runs")  # fmt: skip
    if _PULL.search(text):
        return
    for word in command.argv:
        found = _NAME.fullmatch(word)
        if found:
            yield _package(found[1], found[2], registry)


def _released(name: str, registry: Registry, number: str) -> str:
    newest = registry.engines[name].releases[-1].version
    if (name, number) == ("vllm", "41703"):
        return (
            "not merged: no release scales Gemma's embeddings for the draft, and this build alone"
            " did; released SGLang does"
        )
    return f"merged and released long ago: pip install {name}=={newest}"


def _package(name: str, version: str | None, registry: Registry) -> Judged:
    engine = registry.engines[name]
    if version is None:
        return Judged(name, "note", f"whatever is newest on the day: pin it, as"
                      f" {name}=={engine.releases[-1].version}")  # fmt: skip
    return Judged(f"{name}=={version}", "fine", "a release")


def install_line(command: Command, registry: Registry) -> str | None:
    """The line to use instead, for the engine that the command installs."""
    text = " ".join(command.argv)
    name = next((name for name in ("sglang", "vllm") if name in text), None)
    if name is None:
        return None
    return f"uv pip install '{name}=={registry.engines[name].releases[-1].version}'"


def judge_alone(command: Command, registry: Registry) -> Iterator[Judged]:
    """`docker model run hf.co/DRAFT`: a chat with a model that cannot chat."""
    model = named_model(command)
    target = _target_of(model, registry)
    if target:
        yield Judged(model, "wrong", f"a draft is no chat model: it proposes tokens for {target},"
                     " which has to be served with it")  # fmt: skip
    elif model:
        yield Judged(model, "note", "served by itself, without DFlash")


def judge_benchmark(command: Command, registry: Registry) -> Iterator[Judged]:
    """The benchmark of the `dflash` package measures a server that has to run already."""
    options = dict(zip(command.argv, command.argv[1:], strict=False))
    backend = options.get("--backend", "")
    if backend in ("vllm", "sglang"):
        address = options.get("--base-url", "its default address")
        yield Judged(f"--backend {backend}", "fine", f"asks a server at {address}: start it first")
    elif backend == "transformers":
        yield Judged("--backend transformers", "fine", "loads both models itself, on every rank;"
                     " Qwen3 and Llama 3.1 alone")  # fmt: skip
    entry = registry.names.get(options.get("--model", "").lower())
    thinking = registry.entries[entry].model.drafts[0].thinking if entry else None
    if thinking == "off" and "--enable-thinking" in command.argv:
        yield Judged("--enable-thinking", "wrong", "its draft was trained with thinking off")
    elif thinking == "on" and "--enable-thinking" not in command.argv:
        yield Judged("--enable-thinking", "missing", "its draft was trained with thinking on")


def named_model(command: Command) -> str:
    """The model of a command that serves none: `hf.co/OWNER/NAME`, or `--model NAME`."""
    options = dict(zip(command.argv, command.argv[1:], strict=False))
    word = options.get("--model") or next((w for w in command.argv if "/" in w), "")
    return word.removeprefix("hf.co/").removeprefix("huggingface.co/").partition(":")[0]


def preferred_engine(command: Command, registry: Registry) -> EngineName:
    """The one the command asks, or the first that serves the model."""
    options = dict(zip(command.argv, command.argv[1:], strict=False))
    if (backend := options.get("--backend")) in ("vllm", "sglang"):
        return "vllm" if backend == "vllm" else "sglang"
    found = registry.names.get(named_model(command).lower())
    recipes = registry.entries[found].model.recipes if found else []
    return next((recipe.when.engine for recipe in recipes if recipe.when.engine), "vllm")


def _target_of(name: str, registry: Registry) -> str | None:
    found = registry.names.get(name.lower())
    return found if found and found.lower() != name.lower() else None
