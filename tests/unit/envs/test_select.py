from __future__ import annotations

from pathlib import Path

import pytest

from dflash_deploy.envs import places, select
from dflash_deploy.envs.places import Environment, Marker


def lay(version: str, *, engine: str = "vllm", whole: bool = True) -> Path:
    path = places.folder(engine, version)
    (path / "bin").mkdir(parents=True)
    for name in ("python", engine):
        (path / "bin" / name).write_text("")
        (path / "bin" / name).chmod(0o755)
    if whole:
        places.mark(path, Marker(engine, version, engine, 1, "2026-01-01T00:00:00+00:00"))
    return path


@pytest.fixture
def installed() -> list[Environment]:
    for version in ("0.9.0", "0.26.0", "0.30.0"):
        lay(version)
    lay("0.33.0", whole=False)
    lay("0.5.19", engine="sglang")
    (places.root() / "notes.txt").write_text("")
    return select.ready("vllm")


def test_only_whole_ones_of_the_engine_count_in_the_order_of_releases(installed) -> None:
    assert [each.version for each in installed] == ["0.9.0", "0.26.0", "0.30.0"]


@pytest.mark.parametrize(
    ("floor", "version"),
    [(None, "0.30.0"), ("0.26.0", "0.30.0"), ("0.30.0", "0.30.0"), ("0.31.0", None)],
)
def test_the_newest_that_satisfies_the_floor(installed, floor, version) -> None:
    found = select.newest(installed, floor)
    assert (found.version if found else None) == version


@pytest.mark.parametrize(
    ("asked", "version"), [("0.26", "0.26.0"), ("0.31.0", None), ("latest", None)]
)
def test_an_exact_one(installed, asked, version) -> None:
    found = select.exact(installed, asked)
    assert (found.version if found else None) == version


def test_nothing_installed_is_a_normal_case() -> None:
    assert places.every() == []
    assert select.ready("vllm") == []


def test_a_marker_that_is_damaged_marks_nothing(installed) -> None:
    path = places.folder("vllm", "0.30.0")
    (path / places.MARKER).write_text('{"engine": "vl')
    assert places.read(path).state == "unfinished"


@pytest.mark.parametrize("name", ["notes", "vllm", "vllm-", "vllm-latest", "models-1.0", "-0.33.0"])
def test_a_folder_of_somebody_else_is_neither_listed_nor_swept_away(installed, name: str) -> None:
    stray = places.root() / name
    stray.mkdir()
    (stray / "thesis.txt").write_text("years of work", encoding="utf-8")
    assert stray not in [each.path for each in places.every()]
    places.sweep(lambda _: None)
    assert (stray / "thesis.txt").exists()
