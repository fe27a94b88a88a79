"""The fakes' own HTTP server: a port that was in use a moment ago is free."""

from __future__ import annotations

import socket

from tests.fakes.openai import HTTPServer


def test_a_connection_that_ended_does_not_hold_its_port() -> None:
    first = HTTPServer(("127.0.0.1", 0), None)  # type: ignore[arg-type]
    with socket.create_connection(first.server_address[:2]):
        ours, _ = first.socket.accept()
        ours.close()  # the side that closes first is the one that waits
    port = first.server_address[1]
    first.server_close()
    HTTPServer(("127.0.0.1", port), None).server_close()  # type: ignore[arg-type]
