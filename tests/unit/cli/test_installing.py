"""The driver is judged before uv is asked for anything."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dflash_deploy import hardware
from dflash_deploy.cli import _installing
from dflash_deploy.errors import Unsupported
from dflash_deploy.hardware import Hardware
from tests.fakes.uv import install_fake_uv

OLD = Hardware(driver="570.86.15", cuda="12.8")


@pytest.fixture
def uv_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    install_fake_uv(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_UV_LOG", str(tmp_path / "uv.log"))
    monkeypatch.setattr(hardware, "probe", lambda _gpus: OLD)
    return tmp_path / "uv.log"


def test_a_driver_too_old_stops_before_anything_is_asked_or_made(uv_log: Path) -> None:
    with pytest.raises(Unsupported, match=r"driver 580\.65\.06 or newer"):
        _installing.installed("vllm", check_driver=True)
    assert not uv_log.exists()
    assert not _installing.root().exists()


def test_it_may_be_meant_for_another_machine(uv_log: Path) -> None:
    made, new = _installing.installed("vllm", check_driver=False)
    assert new
    assert (made.version, made.state, made.on_path) == ("0.33.0", "ready", False)


def test_the_one_on_path_is_told(uv_log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, _ = _installing.installed("vllm", check_driver=False)
    monkeypatch.setenv("PATH", f"{made.path / 'bin'}:{os.environ['PATH']}")
    (listed,) = [each for each in _installing.every() if each.engine == "vllm"]
    assert listed.on_path
    assert _installing.row(listed)[3] == "ready, on PATH"
