"""The Docker daemon, asked over its own API: does it run, may we, do containers get cards."""

from __future__ import annotations

import errno
import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from dflash_deploy.docker_context import SOCKET, meant
from dflash_deploy.doctor.finding import Finding, plain
from dflash_deploy.errors import EngineError

TIMEOUT = 2.0
# installed beside the daemon, it makes `--gpus` work without a runtime of its own
HOOK = "nvidia-container-runtime-hook"
INSTALL_TOOLKIT = "install nvidia-container-toolkit, then restart Docker"


State = Literal[
    "answers", "absent", "stopped", "forbidden", "silent", "foreign", "unasked", "unknown"
]
START = "sudo systemctl start docker"


class Docker(msgspec.Struct, frozen=True):
    """`absent`: no socket; `stopped`: a socket and nobody behind it; `foreign`: no Docker;

    `unknown`: the docker context that was chosen is not there.
    """

    state: State
    host: str
    version: str | None = None
    system: str | None = None
    nvidia: Literal["runtime", "cdi", "hook"] | None = None
    """By what containers get cards; None: by nothing that could be seen."""
    client: bool = False
    """Whether the `docker` program is installed."""
    toolkit: bool = False
    """Whether `nvidia-ctk` is."""
    rootless: str | None = None
    """The socket of a daemon of the user's own that nothing names."""
    context: str | None = None
    """The docker context that names the host."""
    detail: str | None = None


def read() -> Docker:
    try:
        found = meant()
    except EngineError as error:
        return Docker("unknown", "", detail=error.message)
    own = Path(os.environ.get("XDG_RUNTIME_DIR") or "/nonexistent") / "docker.sock"
    return msgspec.structs.replace(
        _reach(found.host),
        client=shutil.which("docker") is not None,
        toolkit=shutil.which("nvidia-ctk") is not None,
        rootless=f"unix://{own}" if own.is_socket() and str(own) not in found.host else None,
        context=found.context,
    )


def _reach(host: str) -> Docker:
    scheme, _, rest = host.partition("://")
    if scheme == "unix":
        return _knock(host, rest) or _ask(host, "http://docker", rest)
    if scheme in ("tcp", "http") and not os.environ.get("DOCKER_TLS_VERIFY"):
        return _ask(host, f"http://{rest}", None)
    return Docker("unasked", host)


def _knock(host: str, path: str) -> Docker | None:
    """What the kernel says of the socket, before anybody speaks HTTP to it; None: it opens."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(TIMEOUT)
        try:
            probe.connect(path)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EPERM):
                return Docker("forbidden", host)
            return Docker("stopped" if Path(path).exists() else "absent", host, detail=str(error))
    return None


def _ask(host: str, url: str, path: str | None) -> Docker:
    import httpx

    transport = httpx.HTTPTransport(uds=path) if path else None
    try:
        with httpx.Client(base_url=url, transport=transport, timeout=TIMEOUT) as client:
            client.get("/_ping").raise_for_status()
            version = client.get("/version").raise_for_status().json()
            info = client.get("/info").raise_for_status().json()
    except (httpx.TimeoutException, httpx.ConnectError) as error:
        return Docker("silent", host, detail=str(error))
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        return Docker("foreign", host, detail=str(error).partition("\n")[0])
    if not isinstance(version, dict) or not isinstance(info, dict):
        return Docker("foreign", host, detail="its answers are no objects")
    return Docker(
        "answers", host, str(version.get("Version") or "") or None,
        str(info.get("OperatingSystem") or "") or None, way_to_cards(info),
    )  # fmt: skip


def way_to_cards(info: dict[str, Any]) -> Literal["runtime", "cdi", "hook"] | None:
    """From `GET /info`; releases that list no CDI devices at least list the folders of theirs."""
    if "nvidia" in (info.get("Runtimes") or {}):
        return "runtime"
    devices = info.get("DiscoveredDevices") or []
    if any(str(device.get("ID", "")).startswith("nvidia.com/") for device in devices):
        return "cdi"
    folders = map(Path, info.get("CDISpecDirs") or ())
    if any(path.suffix in (".yaml", ".json") for dir_ in folders for path in dir_.glob("nvidia*")):
        return "cdi"
    return "hook" if shutil.which(HOOK) else None


def findings(docker: Docker, *, cards: bool) -> Iterator[Finding]:
    """Without cards, Docker is no concern."""
    text, remedy = _said(docker, cards=cards)
    fine = not cards or (docker.state == "answers" and docker.nvidia)
    yield Finding("docker", "ok" if fine else "note", plain(text), None if fine else remedy)


def _said(docker: Docker, *, cards: bool) -> tuple[str, str | None]:
    at = docker.host.removeprefix("unix://")
    leave = "docker context use default" if docker.context else "unset DOCKER_HOST"
    if docker.state == "unknown":
        return docker.detail or "", "docker context use default"
    if docker.state == "answers":
        return _answering(docker, cards=cards)
    if docker.rootless:
        return f"no Docker at {at}, but one of your own", f"export DOCKER_HOST={docker.rootless}"
    if docker.state == "absent" and docker.client:
        return "Docker is installed, and its daemon does not run", START
    named = docker.host != f"unix://{SOCKET}"
    texts: dict[str, tuple[str, str | None]] = {
        "absent": (f"no Docker here: there is no {at}", None),
        "stopped": (f"nobody listens at {at}: Docker does not run", START),
        "forbidden": (
            f"Docker runs, and this user may not speak to it at {at}",
            "sudo usermod -aG docker $USER, then log in again",
        ),
        "silent": (
            f"no answer from Docker at {at}",
            leave if named else "systemctl status docker",
        ),
        "foreign": (
            f"what answers at {at} is no Docker: {docker.detail}",
            leave if named else "docker info",
        ),
        "unasked": (f"Docker at {at} was not asked: only sockets and plain tcp are", None),
    }
    return texts[docker.state]


def _answering(docker: Docker, *, cards: bool) -> tuple[str, str | None]:
    text = f"Docker {docker.version or ''} on {docker.system or 'an unnamed system'}"
    words = {
        "runtime": "with the NVIDIA runtime", "cdi": "with NVIDIA's CDI devices",
        "hook": "with NVIDIA's hook for --gpus",
    }  # fmt: skip
    if docker.nvidia:
        return f"{text}, {words[docker.nvidia]}", None
    if not cards:
        return text, None
    configure = "sudo nvidia-ctk runtime configure --runtime=docker; sudo systemctl restart docker"
    return (
        f"{text}, without a way to hand GPUs to containers",
        configure if docker.toolkit else INSTALL_TOOLKIT,
    )
