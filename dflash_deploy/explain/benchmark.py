"""`python -m dflash.benchmark`: what it needs, and the `dflash bench` that measures the same."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from dflash_deploy.choose import default_engine
from dflash_deploy.explain.judged import Judged
from dflash_deploy.explain.read import Command
from dflash_deploy.hardware import Hardware
from dflash_deploy.registry import Entry, Registry
from dflash_deploy.schema import EngineName

_SAME = {
    "--dataset": "--dataset", "--num-prompts": "--num-prompts", "--max-samples": "--num-prompts",
    "--concurrency": "--concurrency", "--temperature": "--temperature",
    "--max-new-tokens": "--max-tokens",
}  # fmt: skip
"""Options that mean the same here."""
_PLAIN = re.compile(r"[\w.,-]+", re.ASCII)
_HERE = re.compile(r"https?://(?:localhost|127\.0\.0\.1|0\.0\.0\.0)(?::\d+)?(?:/v1)?/?")


def judge_benchmark(command: Command, registry: Registry) -> Iterator[Judged]:
    """The benchmark of the `dflash` package measures a server that has to run already."""
    options = named_options(command)
    backend = options.get("--backend", "")
    if backend in ("vllm", "sglang"):
        address = options.get("--base-url", "its default address")
        yield Judged(f"--backend {backend}", "fine", f"asks a server at {address}, which has to run"
                     " already: dflash bench starts it, and a plain one to compare")  # fmt: skip
    elif backend == "transformers":
        yield Judged("--backend transformers", "note", "loads both models itself, on every rank;"
                     " Qwen3 and Llama 3.1 alone. Here an engine does it on cards, and the embedded"
                     " one on a CPU")  # fmt: skip
    if command.launcher == "torchrun":
        yield Judged("torchrun", "unneeded", "an engine uses all cards itself, and batches what"
                     " the ranks would share")  # fmt: skip
    entry = _entry(options, registry)
    thinking = entry.model.drafts[0].thinking if entry else None
    if thinking == "off" and "--enable-thinking" in command.argv:
        yield Judged("--enable-thinking", "wrong", "its draft was trained with thinking off")
    elif thinking == "on" and "--enable-thinking" not in command.argv:
        yield Judged("--enable-thinking", "missing", "its draft was trained with thinking on")


def bench_line(command: Command, registry: Registry, hardware: Hardware) -> str | None:
    """The same measurement, on servers that it starts; None for a model that is not known."""
    options = named_options(command)
    entry = _entry(options, registry)
    if entry is None:
        return None
    draft = options.get("--draft-model", "")
    own = any(known.id.lower() == draft.lower() for known in entry.model.drafts[1:])
    words = ["dflash", "bench", draft if own else entry.name]
    words += ["--engine", bench_engine(command, registry, hardware)]
    address = options.get("--base-url", "")
    if address and not _HERE.fullmatch(address) and "@" not in address:
        words += ["--url", address]
    for name, same in _SAME.items():
        if _PLAIN.fullmatch(options.get(name, "")):
            words += [same, options[name]]
    if "--enable-thinking" in command.argv and entry.model.drafts[0].thinking != "off":
        words += ["--enable-thinking"]
    return shlex.join(words)


def bench_engine(command: Command, registry: Registry, hardware: Hardware) -> EngineName:
    """The one that is asked for, which for cards is no `transformers`: the registry's first."""
    options = named_options(command)
    backend = options.get("--backend", "")
    if backend in ("vllm", "sglang"):
        return "vllm" if backend == "vllm" else "sglang"
    entry = _entry(options, registry)
    if entry is None:
        return "vllm"
    if backend == "transformers" and not hardware.cards:
        return "transformers"
    return default_engine(entry, options.get("--draft-model") or options.get("--model", ""))


def named_options(command: Command) -> dict[str, str]:
    """Each option with the word behind it."""
    pairs = dict(zip(command.argv, command.argv[1:], strict=False))
    return pairs | dict(word.split("=", 1) for word in command.argv if "=" in word)


def _entry(options: dict[str, str], registry: Registry) -> Entry | None:
    found = registry.names.get(options.get("--model", "").lower())
    return registry.entries[found] if found else None
