"""A resolution in an engine's own words: settings, environment, argv. One file an engine."""

from __future__ import annotations

from dflash_deploy.engines import sglang, transformers, vllm
from dflash_deploy.engines.spelling import Command
from dflash_deploy.request import Resolution


def command(resolution: Resolution) -> Command:
    """What the engine of this resolution is started with."""
    match resolution.request.engine:
        case "vllm":
            return vllm.command(resolution)
        case "sglang":
            return sglang.command(resolution)
        case "transformers":
            return transformers.command(resolution)


__all__ = ["Command", "command"]
