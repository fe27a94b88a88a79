"""What every route shares: reading a body, watching the client, errors in OpenAI's shape."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dflash_deploy.server.api_error import INVALID, SERVER, ApiError, shutting_down

MAX_BODY = 10 * 1024 * 1024
T = TypeVar("T")


def json_response(value: Any, status: int = 200, headers: Any = None) -> Response:
    body = msgspec.json.encode(value)
    return Response(body, status, headers, media_type="application/json")


def error_response(error: ApiError) -> Response:
    return json_response(error.body(), error.status, error.headers)


async def read_body(request: Request) -> bytes:
    """The whole body. Raises ApiError 415, and 413 without reading on once it is too large."""
    _check_kind(request)
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > MAX_BODY:
        raise _too_large()
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_BODY:
            raise _too_large()
    return bytes(body)


def _check_kind(request: Request) -> None:
    """JSON as it is, and said to be that, as vLLM and OpenAI ask for it.

    A browser asks before it sends JSON to another site, and sends text or a form at once: whoever
    visits a page would have that page's requests decoded here.
    """
    kind = request.headers.get("content-type", "")
    if kind.partition(";")[0].strip().lower() != "application/json":
        said = f"not {kind[:80]!r}" if kind else "and none was given"
        raise ApiError(
            415, f"the Content-Type has to be application/json, {said}",
            code="unsupported_content_type",
        )  # fmt: skip
    packed = request.headers.get("content-encoding", "identity")
    if packed.strip().lower() != "identity":
        raise ApiError(
            415, f"the body has to be sent as it is, without Content-Encoding: {packed[:80]}",
            code="unsupported_content_encoding", headers={"Accept-Encoding": "identity"},
        )  # fmt: skip


def _too_large() -> ApiError:
    return ApiError(413, f"the body is larger than {MAX_BODY} bytes", code="request_too_large")


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """`work`'s result, for as long as the client waits for it; then ClientDisconnect."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        task.cancel()
        gone.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


class CutOff:
    """A request that the server's end cuts off gets its answer, and is no fault for the log.

    uvicorn cancels what outlives its time to shut down: a body that still arrives, say.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def noticed(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, noticed)
        except asyncio.CancelledError:
            if scope["type"] == "http" and not begun:
                await error_response(shutting_down())(scope, receive, send)


class EventStream(StreamingResponse):
    """Server-sent events; `on_end` runs however the stream ends, also before its first event."""

    def __init__(self, events: AsyncIterator[bytes], on_end: Callable[[], None]) -> None:
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        super().__init__(events, headers=headers, media_type="text/event-stream")
        self._on_end = on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._on_end()


def event(value: Any) -> bytes:
    return b"data: " + msgspec.json.encode(value) + b"\n\n"


DONE = b"data: [DONE]\n\n"


async def on_api_error(_: Request, error: ApiError) -> Response:
    return error_response(error)


async def on_http_error(request: Request, error: HTTPException) -> Response:
    """Starlette's own: no such path, or a method the path does not take."""
    message = f"{request.method} {request.url.path}: {error.detail.lower()}"
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code)
    kind = INVALID if error.status_code < 500 else SERVER
    refusal = ApiError(error.status_code, message, kind=kind, code=code, headers=error.headers)
    return error_response(refusal)


async def on_disconnect(_: Request, __: Exception) -> Response:
    return Response(status_code=499)  # nobody reads it; for the access log


async def on_bug(_: Request, __: Exception) -> Response:
    message = "the server met an error of its own; its log says more"
    return error_response(ApiError(500, message, kind=SERVER, code="internal"))
