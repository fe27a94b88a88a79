"""The daemon: there or not, allowed or not, and what hands cards to containers."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dflash_deploy.doctor import docker
from dflash_deploy.doctor.docker import Docker
from tests.fakes.docker import CDI, INFO, NVIDIA, daemon

AT = "unix:///var/run/docker.sock"


@pytest.fixture
def at(monkeypatch) -> Iterator[Path]:
    """Short: a socket's path has at most 107 letters."""
    for name in ("DOCKER_TLS_VERIFY", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "docker.sock"
        monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
        yield path


@pytest.mark.parametrize(("info", "way"), [(INFO, None), (NVIDIA, "runtime"), (CDI, "cdi")])
def test_a_daemon_says_how_containers_get_cards(at, info, way):
    with daemon(at, info):
        found = docker.read()
    assert (found.state, found.version, found.nvidia) == ("answers", "28.3.0", way)
    assert found.system == "Ubuntu 24.04.1 LTS"


def test_specifications_in_a_folder_count_where_the_daemon_lists_no_devices(tmp_path):
    info = INFO | {"CDISpecDirs": [str(tmp_path)]}
    assert docker.way_to_cards(info) is None
    (tmp_path / "nvidia.yaml").write_text("kind: nvidia.com/gpu")
    assert docker.way_to_cards(info) == "cdi"


def test_no_socket_and_nobody_behind_it_are_told_apart(at):
    assert docker.read().state == "absent"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(at))
    assert docker.read().state == "stopped"


def test_a_socket_of_others_is_forbidden(at, monkeypatch):
    def refused(self, address):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(socket.socket, "connect", refused)
    assert docker.read().state == "forbidden"


def test_something_else_on_the_socket_is_no_docker(at):
    with daemon(at, []):
        assert docker.read().state == "foreign"


def test_a_silent_one_is_not_waited_for(at, monkeypatch):
    monkeypatch.setattr(docker, "TIMEOUT", 0.1)
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(at))
        deaf.listen()
        assert docker.read().state == "silent"


def test_a_daemon_of_the_users_own_is_noticed(at, monkeypatch):
    own = at.parent / "own"
    own.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(own))
    with daemon(own / "docker.sock"):
        found = docker.read()
    (said,) = docker.findings(found, cards=True)
    assert said.remedy == f"export DOCKER_HOST=unix://{own}/docker.sock"


def test_what_is_not_asked_says_so(at, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "ssh://box")
    (said,) = docker.findings(docker.read(), cards=True)
    assert "ssh://box was not asked" in said.text


def test_a_context_that_is_not_there_is_named(at, monkeypatch):
    monkeypatch.delenv("DOCKER_HOST")
    monkeypatch.setenv("DOCKER_CONTEXT", "gone")
    (said,) = docker.findings(docker.read(), cards=True)
    assert (said.text, said.remedy) == (
        "there is no docker context gone",
        "docker context use default",
    )


@pytest.mark.parametrize(
    ("found", "remedy"),
    [
        (Docker("absent", AT), None),
        (Docker("silent", "tcp://box:2375", context="box"), "docker context use default"),
        (Docker("absent", AT, client=True), "sudo systemctl start docker"),
        (Docker("stopped", AT), "sudo systemctl start docker"),
        (Docker("forbidden", AT), "sudo usermod -aG docker $USER, then log in again"),
        (Docker("silent", AT), "systemctl status docker"),
        (Docker("silent", "tcp://box:2375"), "unset DOCKER_HOST"),
        (Docker("foreign", AT, detail="404"), "docker info"),
        (Docker("answers", AT, "28", "Ubuntu"), docker.INSTALL_TOOLKIT),
        (
            Docker("answers", AT, "28", "Ubuntu", toolkit=True),
            "sudo nvidia-ctk runtime configure --runtime=docker; sudo systemctl restart docker",
        ),
    ],
)
def test_each_state_has_a_remedy_and_keeps_nothing(found, remedy):
    (said,) = docker.findings(found, cards=True)
    assert (said.state, said.remedy) == ("note", remedy)
    (unconcerned,) = docker.findings(found, cards=False)
    assert (unconcerned.state, unconcerned.remedy) == ("ok", None)


def test_with_cards_for_containers_it_is_fine():
    (said,) = docker.findings(Docker("answers", AT, "28.3.0", "Ubuntu", "runtime"), cards=True)
    assert (said.state, said.text) == ("ok", "Docker 28.3.0 on Ubuntu, with the NVIDIA runtime")
