"""Requests under load: so many in flight, or so many a second, each timed to its last token."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dflash_deploy.measure.connection import connect_async, said_in
from dflash_deploy.measure.sample import Answer
from dflash_deploy.measure.stream import StreamReader
from dflash_deploy.plan import Endpoint

if TYPE_CHECKING:
    import httpx

LATE = "no whole answer within"
PATIENCE = 600.0
"""Seconds one answer may take."""


@dataclass(frozen=True)
class Ask:
    """One request, packed before the clock runs."""

    path: str
    body: bytes


Send = Callable[[Ask, float | None], Awaitable[None]]
OnAnswer = Callable[[Answer], None]


def closed_loop(
    endpoint: Endpoint,
    asks: Sequence[Ask],
    concurrency: int,
    *,
    patience: float = PATIENCE,
    on_answer: OnAnswer = lambda _: None,
) -> tuple[list[Answer], float]:
    """Keep `concurrency` requests in flight until all are answered; answers, and seconds."""

    async def work(send: Send) -> None:
        waiting = iter(asks)
        workers = min(concurrency, len(asks))
        await asyncio.gather(*(_worker(send, waiting) for _ in range(workers)))

    return _run(endpoint, work, patience, on_answer)


def open_loop(
    endpoint: Endpoint,
    asks: Sequence[Ask],
    times: Sequence[float],
    *,
    patience: float = PATIENCE,
    on_answer: OnAnswer = lambda _: None,
) -> tuple[list[Answer], float]:
    """Send each request when it is due, whatever became of those before it."""

    async def work(send: Send) -> None:
        await asyncio.gather(
            *(_at(send, ask, due) for ask, due in zip(asks, times, strict=True))
        )  # fmt: skip

    return _run(endpoint, work, patience, on_answer)


async def _worker(send: Send, waiting: Iterator[Ask]) -> None:
    for ask in waiting:
        await send(ask, None)


async def _at(send: Send, ask: Ask, due: float) -> None:
    await send(ask, due)


def _run(
    endpoint: Endpoint,
    work: Callable[[Send], Awaitable[None]],
    patience: float,
    on_answer: OnAnswer,
) -> tuple[list[Answer], float]:
    return asyncio.run(_within_loop(endpoint, work, patience, on_answer))


async def _within_loop(
    endpoint: Endpoint,
    work: Callable[[Send], Awaitable[None]],
    patience: float,
    on_answer: OnAnswer,
) -> tuple[list[Answer], float]:
    answers: list[Answer] = []
    async with connect_async(endpoint) as client:
        began = time.perf_counter()

        def clock() -> float:
            return time.perf_counter() - began

        async def send(ask: Ask, due: float | None) -> None:
            if due is not None:
                await asyncio.sleep(due - clock())
            answer = await _answer(client, ask, clock() if due is None else due, clock, patience)
            answers.append(answer)
            on_answer(answer)

        await work(send)
    return answers, max((answer.ended for answer in answers), default=0.0)


async def _answer(
    client: httpx.AsyncClient, ask: Ask, sent: float, clock: Callable[[], float], patience: float
) -> Answer:
    import httpx

    reader = StreamReader()
    try:
        async with asyncio.timeout(patience):
            fault = await _read(client, ask, reader, clock)
    except TimeoutError:
        fault = f"{LATE} {patience:g} s"
    except httpx.HTTPError as error:
        fault = f"the connection failed: {str(error) or type(error).__name__}"
    usage = reader.usage
    return Answer(
        sent=sent,
        first=reader.first,
        ended=clock(),
        prompt_tokens=usage.prompt_tokens if usage else 0,
        cached_tokens=reader.cached_tokens,
        output_tokens=usage.completion_tokens if usage else 0,
        cycles=reader.cycles,
        error=fault,
    )


async def _read(
    client: httpx.AsyncClient, ask: Ask, reader: StreamReader, clock: Callable[[], float]
) -> str | None:
    """Read one answer to its end; what was wrong with it."""
    async with client.stream("POST", ask.path, content=ask.body) as answer:
        if answer.status_code != 200:
            await answer.aread()
            said = said_in(answer) or "no reason given"
            return f"status {answer.status_code}: {said[:160]}"
        async for chunk in answer.aiter_raw():
            reader.feed(chunk, clock())
    return reader.fault
