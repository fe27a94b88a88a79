"""A draft run by itself."""

from __future__ import annotations

from collections.abc import Iterator

from dflash_deploy.choose import default_engine
from dflash_deploy.explain.benchmark import named_options
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


def named_model(command: Command) -> str:
    """The model of a command that serves none: `hf.co/OWNER/NAME`, or `--model NAME`."""
    named = named_options(command).get("--model")
    word = named or next((w for w in command.argv if "/" in w), "")
    return word.removeprefix("hf.co/").removeprefix("huggingface.co/").partition(":")[0]


def preferred_engine(command: Command, registry: Registry) -> EngineName:
    """The first that serves the model."""
    found = registry.names.get(named_model(command).lower())
    return default_engine(registry.entries[found], named_model(command)) if found else "vllm"


def _target_of(name: str, registry: Registry) -> str | None:
    """The target of a draft; None for anything else, a target's alias too."""
    found = registry.names.get(name.lower())
    drafts = registry.entries[found].model.drafts if found else []
    known = any(draft.id.lower() == name.lower() for draft in drafts)
    return registry.entries[found].whom if found and known else None
