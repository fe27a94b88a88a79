"""Where an engine is installed, and which release it is."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import msgspec

from dflash_deploy import __version__
from dflash_deploy.engine_schema import Engine
from dflash_deploy.errors import EngineError
from dflash_deploy.launch.endings import NAMES
from dflash_deploy.schema import EngineName

LOCAL_MODULES = ("torch", "transformers", "safetensors", "starlette", "uvicorn")
VERSION_TIMEOUT = 60.0
"""Seconds: a cold `--version` imports torch first."""
# SGLang has a sub-command where vLLM has an option
VERSION_ARGUMENTS: dict[EngineName, tuple[str, ...]] = {
    "vllm": ("--version",),
    "sglang": ("version",),
}
_VERSION = re.compile(r"\b\d+\.\d+(?:\.\d+)?(?:[-+.]?[a-z0-9]+)*", re.IGNORECASE)
ASK_METADATA = "import sys, importlib.metadata as m; print(m.version(sys.argv[1]))"


class EngineInstall(msgspec.Struct, frozen=True):
    executable: Path
    version: str


def find_engine(
    name: EngineName, engine: Engine, *, env_dir: Path | None = None, path: str | None = None
) -> EngineInstall:
    """The engine in `env_dir`, else on PATH (or in `path`). Raises EngineError.

    The embedded engine runs in this interpreter, so its packages are looked for here.
    """
    if name == "transformers":
        return _embedded()
    executable = find_executable(engine.executable, env_dir=env_dir, path=path)
    if executable is None:
        where = f"in {env_dir / 'bin'} or on PATH" if env_dir else "on PATH"
        raise EngineError(
            f"{NAMES[name]} was not found: there is no `{engine.executable}` {where}",
            hint=f"dflash engine install {engine.distribution}=={engine.releases[-1].version}",
        )
    version = from_metadata(executable, engine.distribution)
    return EngineInstall(executable, version or _from_program(name, engine, executable))


def find_executable(name: str, *, env_dir: Path | None, path: str | None = None) -> Path | None:
    """The program `name` in `env_dir`/bin, else on PATH."""
    found = shutil.which(name, path=str(env_dir / "bin")) if env_dir else None
    found = found or shutil.which(name, path=path)
    return Path(found).absolute() if found else None


def from_metadata(executable: Path, distribution: str) -> str | None:
    """Ask the interpreter in the script's first line: milliseconds, for no engine is imported."""
    with suppress(OSError), executable.open("rb") as file:
        first = file.readline(512)
        if not first.startswith(b"#!"):
            return None
        interpreter = os.fsdecode(first[2:]).split()
        with suppress(subprocess.SubprocessError, IndexError):
            asked = subprocess.run(
                [interpreter[0], "-I", "-c", ASK_METADATA, distribution],
                capture_output=True,
                text=True,
                timeout=10,
                check=True,
                stdin=subprocess.DEVNULL,
            )
            return asked.stdout.strip() or None
    return None


def parse_version(text: str) -> str | None:
    """The version in what a program printed; vLLM prints it bare, SGLang after some words."""
    found = _VERSION.findall(text)
    return found[0] if found else None


def _from_program(name: EngineName, engine: Engine, executable: Path) -> str:
    reinstall = f"dflash engine install {engine.distribution}=={engine.releases[-1].version}"
    command = [str(executable), *VERSION_ARGUMENTS[name]]
    try:
        asked = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=VERSION_TIMEOUT,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired as error:
        raise EngineError(
            f"{executable} did not say its version within {VERSION_TIMEOUT:g} s", hint=reinstall
        ) from error
    except OSError as error:
        raise EngineError(
            f"{executable} cannot be run: {error.strerror}", hint=reinstall
        ) from error
    version = parse_version(asked.stdout)
    if asked.returncode or version is None:
        last = (asked.stderr.strip() or asked.stdout.strip() or "no output").splitlines()[-1]
        raise EngineError(
            f"{NAMES[name]} at {executable} is broken: {last}",
            hint=reinstall,
            detail=asked.stderr.strip()[-2000:] or None,
        )
    return version


def _embedded() -> EngineInstall:
    missing = [name for name in LOCAL_MODULES if importlib.util.find_spec(name) is None]
    if missing:
        raise EngineError(
            f"the embedded engine needs {', '.join(missing)}",
            hint="pip install 'dflash-deploy[local]'",
        )
    return EngineInstall(Path(sys.executable), __version__)
