"""Is the port free, and if not, who has it."""

from __future__ import annotations

import errno
import socket
from contextlib import suppress

from dflash_deploy.errors import LaunchError, PortTaken, UsageError

TRIES = 100


def check_port(host: str, port: int) -> None:
    """Raises PortTaken naming who listens there; UsageError for an address that is not ours."""
    try:
        _bind(host, port)
    except OSError as error:
        raise _explain(error, host, port) from error
    except UnicodeError as error:
        raise UsageError(f"{host!r} is no host name", hint="--host 127.0.0.1") from error


def free_port(host: str, after: int) -> int | None:
    """The next port above `after` that nobody listens on."""
    for port in range(after + 1, min(after + TRIES, 65536)):
        with suppress(OSError):
            _bind(host, port)
            return port
    return None


def listener(port: int) -> str | None:
    """`python3 (pid 4242)`, where the system tells; other users' programs it often does not."""
    import psutil

    with suppress(psutil.Error, OSError):
        for connection in psutil.net_connections("tcp"):
            if connection.status != psutil.CONN_LISTEN or not connection.pid:
                continue
            # a listening socket always has an address: host and port
            if tuple(connection.laddr)[-1] == port:
                return f"{psutil.Process(connection.pid).name()} (pid {connection.pid})"
    return None


def _bind(host: str, port: int) -> None:
    bare = host.strip("[]")
    family, kind, proto, _, address = socket.getaddrinfo(
        bare, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    with socket.socket(family, kind, proto) as probe:
        # a server that has just ended leaves connections in TIME_WAIT: they are no obstacle
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(address)


def _explain(error: OSError, host: str, port: int) -> Exception:
    if error.errno == errno.EADDRINUSE:
        who = listener(port) or "another program"
        free = free_port(host, port)
        return PortTaken(
            f"port {port} is taken: {who} listens there",
            hint=f"--port {free}" if free else "--port NNNN",
        )
    if error.errno == errno.EACCES:
        return LaunchError(f"port {port} is for the system's own services", hint="--port 8000")
    return UsageError(
        f"{host} is not an address of this machine: {error.strerror or error}",
        hint="--host 127.0.0.1",
    )
