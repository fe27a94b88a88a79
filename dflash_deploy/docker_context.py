"""Which Docker daemon is meant, as the `docker` program decides it: read without the SDK.

DOCKER_HOST, else the context of DOCKER_CONTEXT or of `docker context use`, else the usual socket. A
daemon of the user's own, and Docker Desktop, are contexts: the usual socket is not there then.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from dflash_deploy.errors import EngineError

SOCKET = "/var/run/docker.sock"


@dataclass(frozen=True)
class Daemon:
    host: str
    context: str | None = None
    """The context that says so; None: DOCKER_HOST, or nobody."""

    @property
    def socket(self) -> str | None:
        """The path of its socket, if it has one."""
        scheme, _, path = self.host.partition("://")
        return path if scheme == "unix" else None


def meant() -> Daemon:
    """Raises EngineError for a context that is not there."""
    if host := os.environ.get("DOCKER_HOST"):
        return Daemon(host)
    name = os.environ.get("DOCKER_CONTEXT") or _current()
    if name in ("", "default"):
        return Daemon(f"unix://{SOCKET}")
    return Daemon(_host_of(name), name)


def _folder() -> Path:
    return Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker")


def _current() -> str:
    """Empty where none was chosen, or nothing can be read: `docker` takes the usual one then."""
    try:
        return str(json.loads((_folder() / "config.json").read_bytes()).get("currentContext", ""))
    except (OSError, ValueError, AttributeError):
        return ""


def _host_of(name: str) -> str:
    # `docker` names the folder so
    folder = _folder() / "contexts" / "meta" / hashlib.sha256(name.encode()).hexdigest()
    try:
        meta = json.loads((folder / "meta.json").read_bytes())
        return str(meta["Endpoints"]["docker"]["Host"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise EngineError(
            f"there is no docker context {name}",
            hint="unset DOCKER_CONTEXT, or docker context use default",
        ) from error
