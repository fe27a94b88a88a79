"""Commands around a server: a benchmark, and a draft run by itself."""

from __future__ import annotations

from collections.abc import Iterator

from dflash_deploy.choose import default_engine
from dflash_deploy.explain.judged import Judged
from dflash_deploy.explain.read import Command
from dflash_deploy.registry import Registry
from dflash_deploy.schema import EngineName


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
    options = _options(command)
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
    word = _options(command).get("--model") or next((w for w in command.argv if "/" in w), "")
    return word.removeprefix("hf.co/").removeprefix("huggingface.co/").partition(":")[0]


def preferred_engine(command: Command, registry: Registry) -> EngineName:
    """The one the command asks, or the first that serves the model."""
    backend = _options(command).get("--backend")
    if backend in ("vllm", "sglang"):
        return "vllm" if backend == "vllm" else "sglang"
    found = registry.names.get(named_model(command).lower())
    return default_engine(registry.entries[found], named_model(command)) if found else "vllm"


def _options(command: Command) -> dict[str, str]:
    pairs = dict(zip(command.argv, command.argv[1:], strict=False))
    return pairs | dict(word.split("=", 1) for word in command.argv if "=" in word)


def _target_of(name: str, registry: Registry) -> str | None:
    """The target of a draft; None for anything else, a target's alias too."""
    found = registry.names.get(name.lower())
    drafts = registry.entries[found].model.drafts if found else []
    return found if any(draft.id.lower() == name.lower() for draft in drafts) else None
