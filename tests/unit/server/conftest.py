"""A server of a scripted decoder, and who asks it: one for each file."""

import httpx
import pytest

from tests.unit.server.fakes import running


@pytest.fixture(scope="module")
def server():
    with running() as server:
        yield server


@pytest.fixture(scope="module")
def client(server):
    with httpx.Client(base_url=server.url) as client:
        yield client
