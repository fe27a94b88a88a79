"""An engine's own Python without a GPU, its kernels or its 5 GB of dependencies.

    python tools/engine_env.py vllm 0.33.0     builds what is missing; prints the command to run it

One environment (torch on the CPU and the packages pinned in engine_env.txt) serves every release of
both engines: a release is its wheel's Python files, put in front with PYTHONPATH. Everything lies
in `$XDG_CACHE_HOME/dflash-contract`, named by what it was made from, and may be removed at will.
Where PyPI's torch is a CUDA build (x86-64 Linux), TORCH_INDEX names an index with CPU builds.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from filelock import FileLock

PINS = Path(__file__).with_suffix(".txt")
LEFT_OUT = (".so", ".co", ".hpp", ".h", "/vllm-rs")
"""Of a wheel: compiled code and its headers, nine tenths of it, which no parser loads."""
PLATFORMS = tuple(
    f"manylinux{name}_x86_64"
    for name in ("_2_39", "_2_35", "_2_34", "_2_31", "_2_28", "_2_24", "_2_17", "2014", "1")
)
"""The Python files are the same on every platform; these wheels exist for each release."""
QUIET = {
    "CUDA_VISIBLE_DEVICES": "",  # no card is used; vLLM then keeps triton without a driver
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "PYTHONDONTWRITEBYTECODE": "",  # every later import takes a third of the first one's time
}
OF_ENGINE = {
    "vllm": {
        "VLLM_TARGET_DEVICE": "cpu",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_NO_USAGE_STATS": "1",
    },
    "sglang": {},
}


@dataclass(frozen=True)
class EngineEnv:
    """How to run one release's code: `subprocess.run([env.python, ...], env=os.environ | env.env)`.

    SGLang's code needs `stand_ins.stand_in()` called before it is imported.
    """

    python: Path
    env: dict[str, str]
    sources: Path
    """The folder that holds the engine's package and its METADATA."""


def environment(engine: str, version: str) -> EngineEnv:
    """The environment of one release, built on first use; several processes may ask at once.

    Raises ValueError for an unknown engine, and RuntimeError with pip's words where it fails.
    """
    if engine not in OF_ENGINE:
        raise ValueError(f"{engine}: not one of {', '.join(OF_ENGINE)}")
    here = (platform.machine(), platform.python_version(), sys.base_prefix)
    shared = _made(_name("environment", *pins(), *here), _install)
    unpack = partial(_unpack, engine=engine, version=version)
    sources = _made(_sources(engine, version), unpack)
    env = {**QUIET, **OF_ENGINE[engine], "PYTHONPATH": str(sources)}
    if engine == "vllm":  # what it learns of each model class; half of a first check's time
        env["VLLM_CACHE_ROOT"] = str(cache() / f"learned-{engine}-{version}")
    return EngineEnv(shared / "bin" / "python", env, sources)


def at_hand(engine: str, version: str) -> bool:
    """Whether the release's source was unpacked before."""
    return (cache() / _sources(engine, version)).is_dir()


def _sources(engine: str, version: str) -> str:
    return _name(f"{engine}-{version}", *LEFT_OUT)


def pins() -> list[str]:
    return [line for line in PINS.read_text().splitlines() if not line.startswith("#")]


def cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "dflash-contract"


def _name(what: str, *made_from: str) -> str:
    return f"{what}-{hashlib.sha256(chr(0).join(made_from).encode()).hexdigest()[:12]}"


def _made(name: str, build: Callable[[Path], None]) -> Path:
    """A folder of the cache, built beside it and renamed: a killed build leaves none."""
    folder = cache() / name
    if folder.is_dir():
        return folder
    cache().mkdir(parents=True, exist_ok=True)
    with FileLock(cache() / f"{name}.lock"):
        if folder.is_dir():  # somebody else built it while this process waited
            return folder
        for left in cache().glob(f"{name}.part-*"):
            shutil.rmtree(left)
        part = Path(tempfile.mkdtemp(prefix=f"{name}.part-", dir=cache()))
        try:
            build(part)
            part.rename(folder)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return folder


def _install(folder: Path) -> None:
    """The shared environment. Only its `bin/python` is used: scripts would name the old folder."""
    _run(sys.executable, "-m", "venv", str(folder))
    index = os.environ.get("TORCH_INDEX")
    _run(
        str(folder / "bin" / "python"), "-m", "pip", "install", "--no-deps", "--no-cache-dir",
        "--disable-pip-version-check", *(["--extra-index-url", index] if index else []),
        "-r", str(PINS),
    )  # fmt: skip
    for kernels in folder.glob("lib/python*/site-packages/torchvision/_meta_registrations.py"):
        kernels.write_text("")  # those of a CUDA build do not load beside a torch for the CPU


def _unpack(folder: Path, *, engine: str, version: str) -> None:
    """A release's Python files, from its wheel."""
    with tempfile.TemporaryDirectory(dir=folder) as wheels:
        _run(
            sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir",
            "--disable-pip-version-check", "--only-binary", ":all:", "--python-version", "3.12",
            "--implementation", "cp", *(f"--platform={name}" for name in PLATFORMS),
            "--dest", wheels, f"{engine}=={version}",
        )  # fmt: skip
        (wheel,) = Path(wheels).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            kept = [name for name in archive.namelist() if not name.endswith(LEFT_OUT)]
            archive.extractall(folder, kept)


def _run(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        last = "\n".join(done.stderr.splitlines()[-12:])
        raise RuntimeError(f"{shlex.join(argv)}\nended with {done.returncode}:\n{last}")


if __name__ == "__main__":
    made = environment(*sys.argv[1:3])
    words = [f"{name}={value}" for name, value in made.env.items()]
    print(shlex.join(["env", *words, str(made.python)]))
