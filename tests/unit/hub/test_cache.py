from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from dflash_deploy.hub.cache import Cached
from dflash_deploy.hub.listing import File

COMMIT = "a" * 40
NAMES = ["config.json", "model.safetensors", "a.json"]


@pytest.fixture
def cached(tmp_path: Path) -> Cached:
    return Cached(tmp_path, "org/x")


def files(cached: Cached) -> list[File]:
    made = []
    for name in NAMES:
        data = name.encode()
        file = File(name, len(data), hashlib.sha256(data).hexdigest())
        cached.blob(file).parent.mkdir(parents=True, exist_ok=True)
        cached.blob(file).write_bytes(data)
        made.append(file)
    return made


def test_the_file_an_engine_opens_first_comes_last(
    cached: Cached, monkeypatch: pytest.MonkeyPatch
) -> None:
    pointed: list[str] = []
    monkeypatch.setattr(cached, "_point", lambda pointer, *_: pointed.append(pointer.name))

    cached.publish(COMMIT, files(cached), COMMIT)

    assert sorted(pointed) == sorted(NAMES)
    assert pointed[-1] == "config.json"


@pytest.mark.parametrize(("revision", "ref"), [(None, "main"), ("v2", "v2"), (COMMIT, None)])
def test_a_revision_points_at_its_commit(
    cached: Cached, revision: str | None, ref: str | None
) -> None:
    folder = cached.publish(COMMIT, files(cached), revision)

    assert folder == cached.folder / "snapshots" / COMMIT
    assert all((folder / name).read_bytes() == name.encode() for name in NAMES)
    assert not (folder / "config.json").readlink().is_absolute()
    assert [path.name for path in cached.folder.glob("refs/*")] == ([ref] if ref else [])
    assert cached.commit(revision) == COMMIT


def test_without_symbolic_links_the_files_themselves_are_there(
    cached: Cached, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(1, "no links here")

    monkeypatch.setattr(Path, "symlink_to", refuse)
    its = files(cached)

    folder = cached.publish(COMMIT, its, None)

    assert all((folder / name).read_bytes() == name.encode() for name in NAMES)
    assert all(cached.find(COMMIT, file) for file in its)


def test_a_pointer_to_something_cut_short_is_turned_to_the_whole(cached: Cached) -> None:
    its = files(cached)
    pointer = cached.snapshot(COMMIT) / "model.safetensors"
    pointer.parent.mkdir(parents=True)
    pointer.write_bytes(b"half")

    cached.publish(COMMIT, its, COMMIT)

    assert pointer.read_bytes() == b"model.safetensors"


def test_what_is_in_refs_is_not_believed(cached: Cached) -> None:
    assert cached.commit(None) is None
    (cached.folder / "refs").mkdir(parents=True)
    (cached.folder / "refs/main").write_text("../../etc")
    assert cached.commit(None) is None
