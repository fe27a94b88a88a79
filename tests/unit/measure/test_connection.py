from __future__ import annotations

import pytest

from dflash_deploy.measure.connection import connect, message_of, served_models
from dflash_deploy.plan import Endpoint
from tests.fakes.plans import TARGET
from tests.unit.measure.conftest import Serve


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error": {"message": "no such model", "code": 404}}', "no such model"),
        (b'{"error": "Unauthorized"}', "Unauthorized"),
        (b'{"detail": "Not Found"}', "Not Found"),
        (b'{"object": "error", "message": "too long"}', "too long"),
        (b"<html>Bad gateway</html>", "<html>Bad gateway</html>"),
        (b"", None),
        (b"[1]", "[1]"),
    ],
)
def test_the_servers_own_words_are_found_in_every_shape(body: bytes, message: str | None) -> None:
    assert message_of(body) == message


@pytest.mark.parametrize(
    ("url", "trusted"),
    [
        ("http://127.0.0.1:8000", False),
        ("http://[::1]:8000", False),
        ("http://localhost:8000", False),
        ("https://llm.example.com", True),
    ],
)
def test_proxies_are_for_other_machines(url: str, trusted: bool) -> None:
    with connect(Endpoint(url, "m", "vllm"), read_timeout=1) as client:
        assert client.trust_env is trusted


def test_a_key_that_is_not_set_sends_no_header() -> None:
    with connect(Endpoint("http://x", "m", "vllm", None, "NOT_SET_HERE"), read_timeout=1) as client:
        assert "authorization" not in client.headers


def test_a_server_names_its_models(serve: Serve) -> None:
    assert served_models(serve("vllm")) == [TARGET, "qwen3-4b"]
