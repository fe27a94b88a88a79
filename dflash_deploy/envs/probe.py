"""Run by an engine's own interpreter: its version, then its own program with the words given.

`python -I probe.py vllm serve --help=all`. Nothing but the standard library and the engine.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from importlib import metadata
from typing import Any


def main(name: str, arguments: list[str]) -> object:
    module = importlib.import_module(name)
    version = getattr(module, "__version__", None) or metadata.version(name)
    sys.stdout.write(f"version {version}\n")
    sys.stdout.flush()
    if name == "vllm":
        without_card()
    (program,) = metadata.entry_points(group="console_scripts", name=name)
    sys.argv = [name, *arguments]
    return program.load()()


def without_card() -> None:
    """vLLM's parser asks for the device, and to have none is an error; any will do for it."""
    with contextlib.suppress(ImportError):
        platforms: Any = importlib.import_module("vllm.platforms")
        if not platforms.current_platform.device_type:
            platforms._current_platform = importlib.import_module(  # noqa: SLF001 - no public way
                "vllm.platforms.cpu"
            ).CpuPlatform()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))  # type: ignore[arg-type]
