from __future__ import annotations

import os
from pathlib import Path

import pytest

from dflash_deploy.envs import needs, uv
from dflash_deploy.envs.install import Installing
from dflash_deploy.envs.needs import Wanted
from dflash_deploy.registry import load
from tests.fakes.uv import install_fake_uv


class Said(list[str]):
    """What was said, and how far it was."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[tuple[int, int]] = []

    def watch(self, done: int, total: int) -> None:
        self.steps.append((done, total))


@pytest.fixture
def engines():
    return load(user=False).engines


@pytest.fixture
def this(engines) -> Wanted:
    return needs.wanted("vllm==0.33.0", engines)


@pytest.fixture
def fake_uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fake `uv` first on PATH; the log of its calls."""
    install_fake_uv(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_UV_LOG", str(tmp_path / "uv.log"))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "uv.log"


@pytest.fixture
def said() -> Said:
    return Said()


@pytest.fixture
def how(fake_uv: Path, said: Said) -> Installing:
    return Installing(uv.find(), said.append, said.watch)
