"""The routes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from dflash_deploy import __version__
from dflash_deploy.server import answers, page, transport
from dflash_deploy.server.answers import Answer
from dflash_deploy.server.api_error import ApiError
from dflash_deploy.server.guard import KeyGuard
from dflash_deploy.server.jobs import Intake
from dflash_deploy.server.metrics import Metrics
from dflash_deploy.server.scheduler import Scheduler
from dflash_deploy.server.sequence import Chunk, Job, Report, RequestState
from dflash_deploy.server.wire import Body, parse_chat, parse_completion


class Mailbox:
    """News from the decode thread, read on the event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._news: asyncio.Queue[Chunk | ApiError] = asyncio.Queue()

    def post(self, news: Chunk | ApiError) -> None:
        self._loop.call_soon_threadsafe(self._news.put_nowait, news)

    async def next(self) -> Chunk:
        news = await self._news.get()
        if isinstance(news, ApiError):
            raise news
        return news


@dataclass(frozen=True)
class Service:
    """What the routes stand on."""

    intake: Intake
    scheduler: Scheduler
    metrics: Metrics
    api_key: str | None = None

    async def chat(self, request: Request) -> Response:
        body = parse_chat(await transport.read_body(request))
        self.intake.check_name(body.model)
        # A long prompt takes a while to tokenize: not on the event loop.
        job = await asyncio.to_thread(self.intake.chat_job, body)
        return await self._respond(request, body, job, chat=True)

    async def completion(self, request: Request) -> Response:
        body = parse_completion(await transport.read_body(request))
        self.intake.check_name(body.model)
        job = await asyncio.to_thread(self.intake.completion_job, body)
        return await self._respond(request, body, job, chat=False)

    async def _respond(self, request: Request, body: Body, job: Job, *, chat: bool) -> Response:
        mailbox = Mailbox()
        state = RequestState(job, self.intake.text.decode, mailbox.post)
        prompt_ids = job.prompt_ids if body.return_token_ids else None
        spell = None if body.alternatives is None else self.intake.text.token_bytes
        answer = Answer(
            job.request_id, body.model, chat, body.include_usage, prompt_ids, spell,
            tell_steps=body.include_dflash,
        )  # fmt: skip
        self.scheduler.submit(state)
        streams = False
        try:
            if not body.stream:
                chunks, report = await transport.while_connected(request, _all(mailbox))
                return transport.json_response(answer.whole(chunks, report))
            # The first chunk comes before the headers: a failure until then has its own status.
            first = await transport.while_connected(request, mailbox.next())
            streams = True
            events = _events(answer, first, mailbox)
            return transport.EventStream(events, on_end=lambda: self.scheduler.abandon(state))
        finally:
            if not streams:
                self.scheduler.abandon(state)

    async def health(self, _: Request) -> Response:
        ready = self.scheduler.healthy
        return transport.json_response({"status": "ok" if ready else "down"}, 200 if ready else 503)

    async def prometheus(self, _: Request) -> Response:
        return Response(self.metrics.render(), media_type="text/plain; version=0.0.4")


async def _all(mailbox: Mailbox) -> tuple[list[Chunk], Report]:
    chunks: list[Chunk] = []
    while True:
        chunk = await mailbox.next()
        chunks.append(chunk)
        if chunk.report is not None:
            return chunks, chunk.report


async def _events(answer: Answer, first: Chunk, mailbox: Mailbox) -> AsyncIterator[bytes]:
    if (opening := answer.opening()) is not None:
        yield transport.event(opening)
    chunk = first
    try:
        while True:
            if (piece := answer.piece(chunk)) is not None:
                yield transport.event(piece)
            if chunk.report is not None:
                break
            chunk = await mailbox.next()
        if (closing := answer.closing(chunk.report)) is not None:
            yield transport.event(closing)
    except ApiError as error:  # the status is out already: the error is an event
        yield transport.event(error.body())
    yield transport.DONE


def create_app(service: Service) -> Starlette:
    created = int(time.time())
    intake = service.intake

    async def models(_: Request) -> Response:
        return transport.json_response(answers.models(intake.names, intake.max_model_len, created))

    async def model(request: Request) -> Response:
        name = request.path_params["name"]
        intake.check_name(name)
        return transport.json_response(answers.model(name, intake.max_model_len, created))

    async def version(_: Request) -> Response:
        # vLLM's path and its key; what it has no key for tells the two apart
        return transport.json_response({"version": __version__, "engine": "transformers"})

    routes = [
        Route("/v1/models", models),
        Route("/v1/models/{name:path}", model),
        Route("/v1/chat/completions", service.chat, methods=["POST"]),
        Route("/v1/completions", service.completion, methods=["POST"]),
        Route("/health", service.health),
        Route("/version", version),
        Route("/metrics", service.prometheus),
        *page.routes(),
    ]
    around = [Middleware(transport.CutOff)]
    if service.api_key is not None:
        around.append(Middleware(KeyGuard, key=service.api_key))
    return Starlette(routes=routes, middleware=around, exception_handlers=_HANDLERS)


_HANDLERS: dict[Any, Callable[[Request, Any], Awaitable[Response]]] = {
    ApiError: transport.on_api_error,
    HTTPException: transport.on_http_error,
    ClientDisconnect: transport.on_disconnect,
    Exception: transport.on_bug,
}
