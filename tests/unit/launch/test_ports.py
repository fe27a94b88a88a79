from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from dflash_deploy.errors import PortTaken, UsageError
from dflash_deploy.launch.ports import check_port, free_port


@pytest.fixture(params=["127.0.0.1", "::1"])
def taken(request: pytest.FixtureRequest) -> Iterator[tuple[str, int]]:
    host = request.param
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as server:
        server.bind((host, 0))
        server.listen()
        yield host, server.getsockname()[1]


def test_a_taken_port_names_its_owner_and_a_free_one(taken: tuple[str, int]) -> None:
    host, port = taken

    with pytest.raises(PortTaken, match=f"port {port} is taken: .*pid {os.getpid()}") as caught:
        check_port(host, port)

    assert caught.value.exit_code == 7
    assert caught.value.hint is not None
    check_port(host, int(caught.value.hint.removeprefix("--port ")))


def test_listening_everywhere_takes_the_port_of_each_address() -> None:
    with socket.socket() as server:
        server.bind(("0.0.0.0", 0))
        server.listen()

        with pytest.raises(PortTaken):
            check_port("127.0.0.1", server.getsockname()[1])


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1", "localhost", "::", "[::1]"])
def test_a_free_port_passes(host: str) -> None:
    port = free_port("127.0.0.1", 20000)

    assert port is not None
    check_port(host, port)


def test_a_foreign_address_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match=r"192\.0\.2\.1 is not an address of this machine"):
        check_port("192.0.2.1", 8000)


def test_a_server_that_has_just_ended_does_not_hold_its_port() -> None:
    with socket.socket() as server:
        # as every server here does, and both sides of this question must
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            accepted, _ = server.accept()
            # the side that closes first keeps the connection in TIME_WAIT
            accepted.close()
            client.recv(1)

    check_port("127.0.0.1", port)
