from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dflash_deploy.envs import uv
from dflash_deploy.envs.uv import Ended
from dflash_deploy.errors import EngineError
from tests.fakes.uv import install_fake_uv


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A machine with these versions of uv: on PATH, and beside this package."""

    def place(on_path: str | None, packaged: str | None) -> None:
        found = []
        for where, version in (("path", on_path), ("package", packaged)):
            if version:
                install_fake_uv(tmp_path / where, version)
                found.append(str(tmp_path / where / "uv"))
        monkeypatch.setattr(uv, "_candidates", lambda: iter(found))

    return place


def test_the_one_on_path_comes_first(beside) -> None:
    beside("0.12.1", "0.13.9")
    assert uv.find().version == "0.12.1"


def test_one_too_old_on_path_is_passed_over(beside) -> None:
    beside("0.11.33", "0.13.9")
    assert uv.find().version == "0.13.9"


def test_only_one_too_old_says_so(beside) -> None:
    beside("0.11.33", None)
    with pytest.raises(EngineError, match=r"uv 0\.11\.33 at .* is too old") as caught:
        uv.find()
    assert caught.value.hint == f"{sys.executable} -m pip install 'uv>=0.12'"


def test_none_at_all_says_so(beside) -> None:
    beside(None, None)
    with pytest.raises(EngineError, match="was not found") as caught:
        uv.find()
    assert caught.value.hint == f"{sys.executable} -m pip install 'uv>=0.12'"


def test_path_is_looked_at_and_then_the_package(tmp_path, monkeypatch) -> None:
    install_fake_uv(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setitem(sys.modules, "uv", type(sys)("uv"))
    sys.modules["uv"].find_uv_bin = lambda: "/packaged/uv"  # type: ignore[attr-defined]
    assert list(uv._candidates()) == [str(tmp_path / "bin" / "uv"), "/packaged/uv"]


def test_what_would_lead_an_install_elsewhere_is_not_passed_on(monkeypatch) -> None:
    monkeypatch.setenv("UV_SYSTEM_PYTHON", "1")
    monkeypatch.setenv("UV_INDEX_URL", "https://mirror.example/simple")
    given = uv.environment()
    assert "UV_SYSTEM_PYTHON" not in given
    assert given["UV_INDEX_URL"] == "https://mirror.example/simple"


def test_output_is_read_line_by_line_without_passwords(tmp_path: Path) -> None:
    seen: list[str] = []
    argv = [sys.executable, "-c", "print('a\\nfrom https://me:pw@host/x'); raise SystemExit(3)"]
    ended = uv.run(argv, cwd=tmp_path, on_line=seen.append)
    assert ended == Ended(3, ("a", "from https://***@host/x"))
    assert seen == list(ended.lines)
