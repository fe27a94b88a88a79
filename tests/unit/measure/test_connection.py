from __future__ import annotations

import ssl

import httpx
import pytest

from dflash_deploy import __version__
from dflash_deploy.errors import LaunchError, UsageError
from dflash_deploy.measure.connection import (
    connect,
    identity,
    message_of,
    served_models,
    unreachable,
)
from dflash_deploy.plan import Endpoint
from dflash_deploy.schema import EngineName
from tests.fakes.plans import TARGET, free_port
from tests.unit.measure.conftest import Serve
from tests.unit.server.fakes import running


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
        (b"[" * 100_000, "[" * 500),
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


def test_a_password_in_an_address_is_not_shown() -> None:
    nobody = Endpoint(f"http://somebody:secret@127.0.0.1:{free_port()}", "m", "vllm")
    with pytest.raises(LaunchError) as caught:
        served_models(nobody)
    assert "no server answers at http://127.0.0.1" in caught.value.message
    assert "secret" not in caught.value.message


def test_a_server_without_a_model_is_said_to_be_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def empty(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"object": "list", "data": []})

    def connected(_: Endpoint, **__: object) -> httpx.Client:
        return httpx.Client(transport=httpx.MockTransport(empty), base_url="http://x")

    monkeypatch.setattr("dflash_deploy.measure.connection.connect", connected)
    with pytest.raises(LaunchError, match="http://x serves no model") as caught:
        served_models(Endpoint("http://x", "m", "vllm"))
    assert caught.value.hint == "curl http://x/v1/models"


def test_lists_in_lists_without_end_are_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    def connected(_: Endpoint, **__: object) -> httpx.Client:
        deep = httpx.MockTransport(lambda _: httpx.Response(200, content=b"[" * 100_000))
        return httpx.Client(transport=deep, base_url="http://x")

    monkeypatch.setattr("dflash_deploy.measure.connection.connect", connected)
    with pytest.raises(LaunchError, match="is no OpenAI-compatible server"):
        served_models(Endpoint("http://x", "m", "vllm"))
    assert identity(Endpoint("http://x", "m", "vllm")) == ("vllm", None)


@pytest.mark.parametrize(("engine", "release"), [("vllm", "0.26.0"), ("sglang", "0.5.17")])
def test_a_server_says_which_engine_it_is(serve: Serve, engine: EngineName, release: str) -> None:
    assert identity(serve(engine, release)) == (engine, release)


def test_the_embedded_server_is_not_taken_for_vllm() -> None:
    with running() as server:
        assert identity(Endpoint(server.url, "m", "vllm")) == ("transformers", __version__)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_path_that_is_not_there_is_no_server(serve: Serve, engine: EngineName) -> None:
    here = serve(engine)
    astray = Endpoint(f"{here.base_url}/nowhere", "m", engine)
    with pytest.raises(LaunchError, match="is no OpenAI-compatible server"):
        served_models(astray)


@pytest.mark.parametrize(
    ("address", "instead"),
    [("foo", "foo"), ("here:7000", "here:7000"), ("//here", "here"), ("", "localhost:8000"),
     ("ftp://localhost", "localhost:8000"), ("http://", "localhost:8000"),
     ("http://[::1", "localhost:8000")],
)  # fmt: skip
def test_what_is_no_address_is_the_users_slip_and_no_dead_server(
    address: str, instead: str
) -> None:
    with pytest.raises(UsageError, match="is no address of a server") as raised:
        served_models(Endpoint(address, "m", "vllm"))
    assert raised.value.exit_code == 2
    assert raised.value.hint == f"as in http://{instead}"


@pytest.mark.parametrize("port", ["0", "65536", "99999"])
def test_a_port_that_cannot_be_is_no_dead_server(port: str) -> None:
    with pytest.raises(UsageError, match="is no address of a server"):
        served_models(Endpoint(f"http://localhost:{port}", "m", "vllm"))


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        ("[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)", "http://x:1"),
        ("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed certificate", "export SSL_CERT_FILE=..."),
        ("[SSL: CERTIFICATE_VERIFY_FAILED] IP address mismatch", "the address with the name"),
        ("[Errno 111] Connection refused", "dflash serve MODEL starts one"),
    ],
)
def test_a_server_that_is_there_and_not_trusted_is_told_from_one_that_is_not(
    error: str, hint: str
) -> None:
    found = unreachable(Endpoint("https://x:1", "m", "vllm"), OSError(error))
    assert found.hint is not None
    assert found.hint.startswith(hint)


def test_certificates_are_read_once_for_all_that_is_asked_of_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = Endpoint("http://127.0.0.1:8000", "m", "vllm")
    connect(here, read_timeout=1).close()
    monkeypatch.setattr(ssl, "create_default_context", lambda **_: pytest.fail("read again"))
    connect(here, read_timeout=1).close()


@pytest.mark.parametrize("host", ["127.0.0.1", "llm.example.com"])
def test_the_certificates_that_the_environment_names_are_used(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/no/such/file.pem")
    with pytest.raises(UsageError, match=r"certificates .* cannot be read") as raised:
        connect(Endpoint(f"https://{host}", "m", "vllm"), read_timeout=1)
    assert raised.value.hint is not None
    assert "SSL_CERT_FILE" in raised.value.hint
