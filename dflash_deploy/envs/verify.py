"""Is what was installed the release that was asked for, and does its own parser run?"""

from __future__ import annotations

import os
from pathlib import Path

from packaging.version import InvalidVersion, Version

from dflash_deploy.envs import probe, uv
from dflash_deploy.envs.needs import Wanted
from dflash_deploy.errors import EngineError

QUIET = {
    "DO_NOT_TRACK": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
    "PYTHONNOUSERSITE": "1",
}


def check(this: Wanted, folder: Path) -> None:
    """Raises EngineError. Takes about as long as the engine's first import: it compiles bytecode.

    Works without a card and without a driver.
    """
    python = str(folder / "bin" / "python")
    argv = [python, "-I", probe.__file__, this.name, *this.install.parser.arguments]
    said: list[str] = []
    ended = uv.run(argv, cwd=folder, env=dict(os.environ) | QUIET, on_line=said.append)
    hint = f"another release: dflash engine install {_other(this)}"
    detail = "\n".join(ended.lines[-12:]) or None
    if ended.code:
        raise EngineError(
            f"{this} was installed and does not run; it was removed again: {_last(said)}",
            hint=hint, detail=detail,
        )  # fmt: skip
    version = next((line.split()[1] for line in said if line.startswith("version ")), "")
    if not _same(version, this.version):
        raise EngineError(
            f"the index gave {this.engine.distribution} {version or '(no version)'} for"
            f" {this.version}; it was removed again", hint=hint,
        )  # fmt: skip
    if not any(this.install.parser.shows in line for line in said):
        raise EngineError(
            f"{this} does not know {this.install.parser.shows}; it was removed again",
            hint=hint, detail=detail,
        )  # fmt: skip


def _same(said: str, wanted: str) -> bool:
    """A build's local part, 0.33.0+cu130, is no other release."""
    try:
        return Version(Version(said).public) == Version(wanted)
    except InvalidVersion:
        return False


def _last(lines: list[str]) -> str:
    return next((line.strip() for line in reversed(lines) if line.strip()), "no output")


def _other(this: Wanted) -> str:
    known = [each.version for each in this.engine.releases if each.version != this.version]
    return f"{this.engine.distribution}=={known[-1]}"
