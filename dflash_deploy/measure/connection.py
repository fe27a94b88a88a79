"""One way to reach a server: its key by name, no proxy for this machine, failures in words."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from dflash_deploy.errors import ContextFull, DFlashError, LaunchError, UsageError, unread
from dflash_deploy.plan import Endpoint, without_password
from dflash_deploy.schema import EngineName

if TYPE_CHECKING:
    import ssl

    import httpx

LOCAL = {"127.0.0.1", "::1", "localhost"}
CONNECT_TIMEOUT = 5.0
WORDS_ELSEWHERE = "what the server printed says more"


def connect(endpoint: Endpoint, *, read_timeout: float | None) -> httpx.Client:
    """A client for the endpoint; `read_timeout` None waits as long as the server thinks."""
    import httpx

    with _an_address(endpoint):
        return httpx.Client(timeout=httpx.Timeout(read_timeout, connect=CONNECT_TIMEOUT),
                            **_manners(endpoint))  # fmt: skip


def connect_async(endpoint: Endpoint) -> httpx.AsyncClient:
    """The same for many requests at once, as many as are asked; their time is the caller's."""
    import httpx

    with _an_address(endpoint):
        return httpx.AsyncClient(
            timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
            **_manners(endpoint),
        )


@contextmanager
def _an_address(endpoint: Endpoint) -> Iterator[None]:
    import httpx

    try:
        _check_address(endpoint.base_url)
        yield
    except (httpx.InvalidURL, ValueError) as error:
        words = endpoint.address.lstrip("/")
        known = words if words and ":/" not in words else "localhost:8000"
        raise UsageError(
            f"`{endpoint.address}` is no address of a server: {error}", hint=f"as in http://{known}"
        ) from error
    except OSError as error:
        raise UsageError(
            f"the certificates for {endpoint.address} cannot be read: {unread(error)}",
            hint="unset SSL_CERT_FILE SSL_CERT_DIR, or set them to what is there",
        ) from error


def _check_address(url: str) -> None:
    """What httpx tells only when it connects, as if a server were down. Raises ValueError."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https"):
        raise ValueError("it begins with neither http:// nor https://")
    if not parts.hostname:
        raise ValueError("it names no machine")
    if parts.port == 0:
        raise ValueError("port 0 is none to connect to")
    if parts.query or parts.fragment:
        raise ValueError("it goes on behind the path")


def base_of(url: str) -> str:
    """The server in a URL that may name a part of its API."""
    return re.sub(r"/v1(/.*)?$", "", url.strip().rstrip("/"))


def is_local(url: str) -> bool:
    """Whether it is this machine; False also for what is no URL."""
    try:
        return urlsplit(url).hostname in LOCAL
    except ValueError:
        return False


def _manners(endpoint: Endpoint) -> dict[str, Any]:
    key = os.environ.get(endpoint.api_key_env) if endpoint.api_key_env else None
    local = is_local(endpoint.base_url)
    return {
        "base_url": endpoint.base_url,
        # what a proxy or server compresses comes late and in lumps
        "headers": {"Accept-Encoding": "identity", "Content-Type": "application/json"}
        | ({"Authorization": f"Bearer {key}"} if key else {}),
        "trust_env": not local,
        **({"verify": _trusted(endpoint)} if local else {}),
    }


def _trusted(endpoint: Endpoint) -> ssl.SSLContext:
    """Without the environment's proxies, but with the certificates that it names."""
    import httpx

    return httpx.create_ssl_context() if _encrypted(endpoint) else certificates()


@cache
def certificates() -> ssl.SSLContext:
    """For a client that asks no environment, read once: it takes longer than an answer does."""
    import httpx

    return httpx.create_ssl_context(trust_env=False)


def _encrypted(endpoint: Endpoint) -> bool:
    return urlsplit(endpoint.base_url).scheme == "https"


def unreachable(endpoint: Endpoint, error: Exception) -> LaunchError:
    said = str(error) or type(error).__name__
    hint = "dflash serve MODEL starts one"
    if "WRONG_VERSION_NUMBER" in said:
        said = "it does not speak TLS"
        hint = f"http://{endpoint.address.partition('://')[2]}"
    elif "mismatch" in said:
        hint = "the address with the name that the certificate is of"
    elif "CERTIFICATE_VERIFY_FAILED" in said:
        hint = "export SSL_CERT_FILE=..., the certificate that signed the server's"
    return LaunchError(f"no server answers at {endpoint.address}: {said}", hint=hint)


def refusal(endpoint: Endpoint, answer: httpx.Response) -> DFlashError:
    """The error for a status that is not 200, with the server's own words."""
    status, said = answer.status_code, said_in(answer)
    match status:
        case 401 | 403:
            name = endpoint.api_key_env or "DFLASH_API_KEY"
            return UsageError(
                f"{endpoint.address} wants an API key, or another one",
                hint=f"export {name}=...",
                detail=said,
            )
        case 404:
            return UsageError(
                f"{endpoint.address} does not serve {endpoint.model}",
                hint=f"curl {endpoint.address}/v1/models",
                detail=said,
            )
        case _ if 300 <= status < 400:
            return UsageError(
                f"{endpoint.address} answers with status {status}: {said}",
                hint="the address that it sends on to",
            )
        case 429:
            return LaunchError(
                "the server is at its limit of requests",
                hint="try again in a moment, or restart it with a higher --concurrency",
                detail=said,
            )
        case _ if status >= 500:
            return LaunchError(
                f"the server failed ({status}): {said or 'it did not say why'}",
                hint=WORDS_ELSEWHERE,
            )
    return _declined(f"the server refused the request ({status})", said)


def _declined(what: str, said: str | None) -> UsageError:
    words = f"{what}: {said or 'no reason given'}"
    if said and "context length" in said:  # as all three engines call it
        return ContextFull(words, hint="ask for less, or serve with a longer --context")
    return UsageError(words)


def said_in(answer: httpx.Response) -> str | None:
    """Why there is no answer: the server's words, and where or when it would have one."""
    said = message_of(answer.content)
    elsewhere, later = answer.headers.get("location"), answer.headers.get("retry-after")
    more = f"it sends on to {without_password(elsewhere)}" if elsewhere else None
    if later:
        more = (
            f"it asks to wait {later} s" if later.isdecimal() else f"it asks to wait until {later}"
        )
    return ": ".join(part for part in (said, more) if part) or None


def message_of(body: bytes) -> str | None:
    """What an error body says: OpenAI's shape, FastAPI's, or plain text."""
    document: Any = None
    with suppress(ValueError, RecursionError):
        document = json.loads(body)
    if isinstance(document, dict):
        error = document.get("error", document)
        if isinstance(error, dict):
            error = error.get("message") or error.get("detail")
        return str(error) if error else None
    return body.decode("utf-8", "replace").strip()[:500] or None


def served_models(endpoint: Endpoint) -> list[str]:
    """The names the server answers to, one at least. Raises LaunchError or UsageError."""
    return [str(model["id"]) for model in _models(endpoint)]


def context_at(endpoint: Endpoint) -> int | None:
    """Tokens of a prompt and its answer; None: the server does not say. Raises as `served_models`.

    Both engines say it of each model, and so does the embedded server.
    """
    said = {str(model["id"]): model.get("max_model_len") for model in _models(endpoint)}
    found = said.get(endpoint.model)
    return found if isinstance(found, int) and found > 0 else None


def _models(endpoint: Endpoint) -> list[dict[str, Any]]:
    import httpx

    try:
        with connect(endpoint, read_timeout=CONNECT_TIMEOUT) as client:
            answer = client.get("/v1/models")
    except httpx.HTTPError as error:
        raise unreachable(endpoint, error) from error
    if answer.status_code not in (httpx.codes.OK, httpx.codes.NOT_FOUND):
        raise refusal(endpoint, answer)
    try:
        found = [{**model, "id": model["id"]} for model in answer.json()["data"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise LaunchError(
            f"{endpoint.address} is no OpenAI-compatible server",
            hint="dflash serve MODEL starts one; its address is as http://localhost:8000",
        ) from error
    if not found:
        raise LaunchError(
            f"{endpoint.address} serves no model", hint=f"curl {endpoint.address}/v1/models"
        )
    return found


def identity(endpoint: Endpoint) -> tuple[EngineName, str | None]:
    """Which engine answers and its release: where each says so, and in what words."""
    import httpx

    paths: dict[str, EngineName] = {"/server_info": "sglang", "/version": "vllm"}
    try:
        with connect(endpoint, read_timeout=CONNECT_TIMEOUT) as client:
            for path, engine in paths.items():
                answer = client.get(path)
                if answer.status_code == httpx.codes.OK:
                    with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
                        said = answer.json()
                        own = said.get("engine") == "transformers"
                        return "transformers" if own else engine, str(said["version"])
    except httpx.HTTPError as error:
        raise unreachable(endpoint, error) from error
    return "vllm", None
