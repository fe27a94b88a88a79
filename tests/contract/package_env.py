"""Programs that read what we write, each in an environment of its own: they would pin ours."""

from __future__ import annotations

import subprocess
from pathlib import Path

import uv
from engine_env import _made, _name


def python_with(*packages: str) -> Path:
    """The Python of an environment with these, made once and kept in the user's cache."""

    def install(folder: Path) -> None:
        for words in (("venv", "--clear"), ("pip", "install", *packages, "--python")):
            subprocess.run([uv.find_uv_bin(), "--quiet", *words, folder], check=True)

    return _made(_name(packages[0], *packages), install) / "bin" / "python"
