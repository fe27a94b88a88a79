"""Options that several commands share, declared once; and the request they add up to."""

from __future__ import annotations

import math
import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dflash_deploy.errors import UsageError


class EngineOption(StrEnum):
    vllm = "vllm"
    sglang = "sglang"
    transformers = "transformers"


class KvOption(StrEnum):
    auto = "auto"
    bf16 = "bf16"
    fp8 = "fp8"


LONGEST = 86400.0
"""Seconds of an option: a day. Far more of them no system call takes."""


def finite(value: float | None) -> float | None:
    """For every option that is a float: its range lets nan through, and inf where it is open."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is no number to count with")
    return value


ModelArg = Annotated[str, typer.Argument(help="An alias, a target's or a draft's hub id.")]
EngineOpt = Annotated[
    EngineOption | None, typer.Option("--engine", "-e", help="Default: the entry's first.")
]
VersionOpt = Annotated[
    str | None,
    typer.Option("--engine-version", help="Release to plan for. Default: the newest known."),
]
GpuOpt = Annotated[
    str | None, typer.Option("--gpu", help="Cards to plan for, as H100:2. Default: found here.")
]
HostOpt = Annotated[str, typer.Option(envvar="DFLASH_HOST", help="Address to listen on.")]
PortOpt = Annotated[int | None, typer.Option(min=1, max=65535, help="Default: 8000, SGLang 30000.")]
BlockOpt = Annotated[int | None, typer.Option(help="Tokens a block; at most what was trained.")]
ConcurrencyOpt = Annotated[
    int | None, typer.Option(min=1, max=65536, help="Requests in flight that you expect at most.")
]
ContextOpt = Annotated[int | None, typer.Option(min=1, help="Prompt plus answer, in tokens.")]
TensorOpt = Annotated[
    int | None, typer.Option("--tensor-parallel", min=1, help="Cards that share one model.")
]
NodesOpt = Annotated[
    int, typer.Option("--nodes", min=1, help="Machines that share one model, with cards alike.")
]
KvOpt = Annotated[KvOption, typer.Option("--kv-dtype", help="KV cache data type.")]
WeightsOpt = Annotated[str | None, typer.Option(help="Which weights of the target, by name.")]
TrustOpt = Annotated[
    bool, typer.Option("--trust-remote-code", help="Run the target repository's own code.")
]
RegistryOpt = Annotated[
    Path | None, typer.Option("--registry", help="A registry folder on top of all others.")
]
RequestTimeoutOpt = Annotated[
    float,
    typer.Option(
        "--request-timeout", min=0.1, max=LONGEST, callback=finite, help="Seconds for one answer."
    ),
]
JsonOpt = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
EngineArgs = Annotated[
    list[str] | None, typer.Argument(metavar="[-- ARGS]...", help="Passed on to the engine.")
]

API_KEY_ENV = "DFLASH_API_KEY"


def api_key_env() -> str | None:
    """A key in the environment makes the server ask for it; the name goes on, never the value."""
    key = os.environ.get(API_KEY_ENV)
    if not key:
        return None
    if not (key.isascii() and key.isprintable() and key == key.strip()):
        raise UsageError(
            f"{API_KEY_ENV} must be printable ASCII without blanks around it: it becomes a header",
            hint=f"export {API_KEY_ENV}=...",
        )
    return API_KEY_ENV


def engine_words(given: list[str] | None) -> tuple[str, ...]:
    """What came after `--`. A bare word is a slip: no engine takes one behind its model."""
    words = tuple(given or ())
    if words and not words[0].startswith("-"):
        raise UsageError(
            f"`{words[0]}` is one word too many: what comes after the model goes to the engine",
            hint="options of the engine follow `--`, as in: dflash serve MODEL -- --seed 7",
        )
    return words
