"""Which daemon is meant: as the `docker` program decides it."""

from __future__ import annotations

import hashlib
import json
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dflash_deploy.docker_context import SOCKET, Daemon, meant
from dflash_deploy.errors import EngineError
from dflash_deploy.launch.daemon import reachable

USUAL = Daemon(f"unix://{SOCKET}")


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Of the `docker` program's own settings; short, as a socket's path must be."""
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.delenv("DOCKER_CONTEXT", raising=False)
    with tempfile.TemporaryDirectory() as made:
        monkeypatch.setenv("DOCKER_CONFIG", made)
        yield Path(made)


def context(folder: Path, name: str, meta: object) -> None:
    """As `docker context create` leaves it."""
    place = folder / "contexts" / "meta" / hashlib.sha256(name.encode()).hexdigest()
    place.mkdir(parents=True)
    (place / "meta.json").write_text(json.dumps(meta))


def at(host: str) -> dict[str, object]:
    return {"Endpoints": {"docker": {"Host": host, "SkipTLSVerify": False}}}


def chosen(folder: Path, name: str) -> None:
    (folder / "config.json").write_text(json.dumps({"currentContext": name}))


@pytest.mark.parametrize(
    "config", [None, "", "{", "[]", '"x"', "{}", '{"currentContext": "default"}']
)
def test_without_a_choice_it_is_the_usual_one(folder: Path, config: str | None) -> None:
    if config is not None:
        (folder / "config.json").write_text(config)
    assert meant() == USUAL


def test_the_environment_goes_before_what_was_chosen(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context(folder, "rootless", at("unix:///run/user/1000/docker.sock"))
    context(folder, "other", at("tcp://box:2375"))
    chosen(folder, "rootless")
    assert meant() == Daemon("unix:///run/user/1000/docker.sock", "rootless")
    monkeypatch.setenv("DOCKER_CONTEXT", "other")
    assert meant() == Daemon("tcp://box:2375", "other")
    monkeypatch.setenv("DOCKER_HOST", "unix:///elsewhere")
    assert meant() == Daemon("unix:///elsewhere")


@pytest.mark.parametrize("meta", [None, [], {}, {"Endpoints": {}}, {"Endpoints": {"docker": 1}}])
def test_one_that_is_not_there_is_named(folder: Path, meta: object) -> None:
    chosen(folder, "gone")
    if meta is not None:
        context(folder, "gone", meta)
    with pytest.raises(EngineError, match="no docker context gone") as told:
        meant()
    assert "docker context use default" in (told.value.hint or "")
    assert reachable()  # who asks on is told


def test_a_socket_of_a_context_counts_as_the_usual_one_does(folder: Path) -> None:
    path = folder / "own.sock"
    context(folder, "rootless", at(f"unix://{path}"))
    chosen(folder, "rootless")
    assert not reachable()
    with socket.socket(socket.AF_UNIX) as own:
        own.bind(str(path))
        assert reachable()
