"""Servers that somebody else started: all that is known of one is what it says at its URL."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import urlsplit

import msgspec

from dflash_deploy.errors import DFlashError
from dflash_deploy.launch.servers import READY
from dflash_deploy.launch.state import UNCHECKED
from dflash_deploy.measure.connection import base_of, identity, served_models
from dflash_deploy.plan import Endpoint
from dflash_deploy.schema import EngineName


class Elsewhere(msgspec.Struct, frozen=True, kw_only=True):
    """A server at a URL, with as much of a record as it has."""

    name: str
    """Its address, without the scheme."""
    model: str
    """As it calls it itself."""
    engine: EngineName
    version: str
    base_url: str
    port: int
    since: str
    """When it was first looked at, in ISO 8601."""
    restarts: int = 0
    api_key_env: str | None = None
    speculation: str | None = UNCHECKED
    expected_length: float | None = None
    ended: str | None = None
    ready: bool = True

    @property
    def served_names(self) -> tuple[str, ...]:
        return (self.model,)

    @property
    def launch_id(self) -> str:
        return self.base_url


def at(url: str, api_key_env: str | None, newest: Mapping[str, str]) -> Elsewhere:
    """What answers there. `newest`: for an engine that does not say its release.

    Raises LaunchError where nobody answers, UsageError for what is no address or wants a key.
    """
    base = base_of(url)
    unnamed = Endpoint(base, "", "vllm", None, api_key_env)
    model = served_models(unnamed)[0]
    engine, version = identity(unnamed)
    parts = urlsplit(base)
    return Elsewhere(
        name=unnamed.address.partition("://")[2], model=model, engine=engine,
        version=version or newest[engine], base_url=base,
        port=parts.port or (443 if parts.scheme == "https" else 80),
        since=datetime.now(UTC).isoformat(timespec="seconds"), api_key_env=api_key_env,
    )  # fmt: skip


def condition(server: Elsewhere) -> str:
    try:
        served_models(Endpoint(server.base_url, server.model, server.engine, server.version,
                               server.api_key_env))  # fmt: skip
    except DFlashError:
        return "no answer"
    return READY
