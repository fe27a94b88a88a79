"""The API key."""

from __future__ import annotations

import hashlib
import hmac

from starlette.types import ASGIApp, Receive, Scope, Send

from dflash_deploy.server.api_error import ApiError
from dflash_deploy.server.transport import error_response


class KeyGuard:
    """Asks for the API key under /v1; health and metrics stay open to probes."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app = app
        self._digest = _digest(f"Bearer {key}".encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _guarded(scope["path"]) or self._admits(scope):
            await self._app(scope, receive, send)
            return
        error = ApiError(
            401,
            "the API key is missing or wrong (Authorization: Bearer KEY)",
            code="invalid_api_key",
            headers={"WWW-Authenticate": "Bearer"},
        )
        await error_response(error)(scope, receive, send)

    def _admits(self, scope: Scope) -> bool:
        given = dict(scope["headers"]).get(b"authorization", b"")
        # Digests are of one length, so the time says nothing about the key's.
        return hmac.compare_digest(_digest(given), self._digest)


def _guarded(path: str) -> bool:
    return path == "/v1" or path.startswith("/v1/")


def _digest(value: bytes) -> bytes:
    return hashlib.sha256(value).digest()
