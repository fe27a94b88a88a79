"""The Docker daemon: where it listens, and its errors told apart in the user's words."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dflash_deploy.docker_context import meant
from dflash_deploy.errors import DFlashError, DownloadError, EngineError, LaunchError, PortTaken

if TYPE_CHECKING:
    import docker

TIMEOUT = 30
"""Seconds for an answer; what takes longer is streamed."""
TOOLKIT = "install nvidia-container-toolkit, then: sudo systemctl restart docker"


@contextmanager
def connected() -> Iterator[docker.DockerClient]:
    """The daemon of DOCKER_HOST, or of the current docker context. Raises EngineError."""
    with told():
        client = _client()
    try:
        with told():
            client.ping()
        yield client
    finally:
        client.close()


def reachable() -> bool:
    """Whether a daemon may be there at all: it costs no import to find out that none is."""
    try:
        found = meant()
    except EngineError:
        return True  # who connects is told
    if os.environ.get("DOCKER_HOST") or found.socket is None:
        return True
    return os.path.exists(found.socket)  # noqa: PTH110


def _client() -> docker.DockerClient:
    import docker

    if os.environ.get("DOCKER_HOST"):
        return docker.from_env(timeout=TIMEOUT)
    found = meant()
    keys = docker.ContextAPI.get_context(found.context).TLSConfig if found.context else None
    return docker.DockerClient(base_url=found.host, tls=keys, timeout=TIMEOUT)


@contextmanager
def told(image: str = "", name: str = "", port: int = 0) -> Iterator[None]:
    """What the SDK raises in the block, as one of ours. The words are for what is started."""
    import requests
    from docker.errors import DockerException

    try:
        yield
    except (DockerException, requests.RequestException) as error:
        raise explained(str(getattr(error, "explanation", None) or error), image, name, port) from (
            error
        )


def explained(said: str, image: str = "", name: str = "", port: int = 0) -> DFlashError:
    """The first of the known causes that the daemon's words give away."""
    for pattern, make in CAUSES:
        if re.search(pattern, said, re.IGNORECASE):
            error = make(image, name, port)
            error.detail = said
            return error
    return LaunchError(f"Docker refused: {said.splitlines()[0]}", hint="docker info")


def _address() -> str:
    return meant().host


Make = Callable[[str, str, int], DFlashError]
CAUSES: tuple[tuple[str, Make], ...] = (
    (
        "paramiko",
        lambda *_: EngineError(
            f"{_address()} is another machine's Docker: its folders and ports are not here",
            hint="on that machine: dflash serve MODEL --docker",
        ),
    ),
    (
        r"Invalid bind (address|protocol)|only supported on Windows|protocol is not implemented",
        lambda *_: EngineError(
            f"{_address()} is no address of a Docker daemon",
            hint="unset DOCKER_HOST, or docker context use default",
        ),
    ),
    (
        r"permission denied.*connect|connect.*permission denied|PermissionError",
        lambda *_: EngineError(
            f"{_address()} belongs to others",
            hint="sudo usermod -aG docker $USER, then log in anew",
        ),
    ),
    (
        (
            r"could not select device driver|unknown or invalid runtime name: nvidia"
            r"|nvidia-container-(cli|runtime)|CDI device injection failed"
        ),
        lambda *_: EngineError("Docker gives containers no NVIDIA cards here", hint=TOOLKIT),
    ),
    (
        r"port is already allocated|address already in use",
        lambda _image, _name, port: PortTaken(
            f"port {port} is taken by another program or container",
            hint=f"docker ps --filter publish={port}, or --port {port + 1}",
        ),
    ),
    (
        r"the container name .* is already in use|Conflict\. .*name",
        lambda _image, name, _port: LaunchError(
            f"a container {name} is there already, and is none of ours", hint=f"docker rm -f {name}"
        ),
    ),
    (
        r"no space left on device",
        lambda *_: DownloadError("the disk of Docker is full", hint="docker system df"),
    ),
    (
        r"toomanyrequests|rate limit",
        lambda image, *_: DownloadError(
            f"the registry of {image} lets nobody pull so often", hint="docker login"
        ),
    ),
    (
        (
            r"pull access denied|manifest .*unknown|no such image|not found: manifest"
            r"|repository .* (not found|does not exist)|name unknown"
        ),
        lambda image, *_: DownloadError(
            f"there is no image {image}, or it is not for you", hint=f"docker pull {image}"
        ),
    ),
    (
        r"dial tcp|no such host|i/o timeout|TLS handshake|x509|Client\.Timeout|awaiting headers",
        lambda image, *_: DownloadError(
            f"the registry of {image or 'the image'} cannot be reached",
            hint=f"docker pull {image}, where there is a network, or docker load a saved one",
        ),
    ),
    (
        "logging driver does not support reading",
        lambda _image, name, _port: LaunchError(
            f"Docker was told to keep no log of {name}: its logging driver sends it elsewhere",
            hint=f"docker inspect --format '{{{{.HostConfig.LogConfig}}}}' {name}",
        ),
    ),
    (
        r"bind source path does not exist|error while creating mount source path",
        lambda *_: LaunchError("Docker does not see a folder of this machine", hint="docker info"),
    ),
    (
        (
            r"Connection ?(refused|reset|aborted)|No such file or directory|FileNotFoundError"
            r"|RemoteDisconnected|EOF|Read timed out|Max retries|Error while fetching server API"
        ),
        lambda *_: EngineError(
            f"no Docker daemon answers at {_address()}", hint="sudo systemctl start docker"
        ),
    ),
)
"""What the daemon, the registry behind it and the socket before it say; particular words first."""
