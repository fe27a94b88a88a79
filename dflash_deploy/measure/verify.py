"""Answers of plain decoding and of DFlash to the same questions, whole and with their tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dflash_deploy.errors import LaunchError
from dflash_deploy.measure.asks import Style
from dflash_deploy.measure.bench import Side
from dflash_deploy.measure.client import PATH
from dflash_deploy.measure.connection import connect_async, refusal, unreachable
from dflash_deploy.measure.counting import counted_since, reading
from dflash_deploy.measure.load import PATIENCE
from dflash_deploy.measure.questions import Question, body_of
from dflash_deploy.measure.same_server import SameServer
from dflash_deploy.measure.sample import Counted
from dflash_deploy.measure.told import Said, said_of

if TYPE_CHECKING:
    import httpx

Keep = Callable[[Side, int, Said], None]
"""Told of every answer: whose, to which question by its number, and what it is."""
Known = Callable[[Side, int], bool]
"""Whether this question was answered before, and is not to be asked again."""


@dataclass(frozen=True, kw_only=True)
class Inquiry:
    """What all servers are asked, and how."""

    questions: tuple[Question, ...]
    style: Style
    concurrency: int
    patience: float = PATIENCE
    """Seconds an answer may take."""


def ask_all(
    sides: Sequence[Side], inquiry: Inquiry, keep: Keep, known: Known = lambda _, __: False
) -> dict[str, Counted]:
    """What is left to servers that run side by side; what each counted meanwhile, by arm.

    Servers take turns after a few questions, so that whoever interrupts has pairs. Raises
    LaunchError or UsageError at the first question that is not answered, and LaunchError where
    another server answers than before.
    """
    askers = [_Asker(side, inquiry, keep) for side in sides]
    others = [SameServer(side.endpoint) for side in sides if side.arm.url]
    for other in others:
        other.look()
    before = {side.arm.name: reading(side.endpoint) for side in sides}
    few = inquiry.concurrency if len(sides) > 1 else max(len(inquiry.questions), 1)
    for numbers in _parts(range(len(inquiry.questions)), few):
        for asker in askers:
            left = [number for number in numbers if not known(asker.side, number)]
            if left:
                asyncio.run(asker.ask(left))
        for other in others:
            other.look()
    return {
        side.arm.name: counted_since(side.endpoint, before[side.arm.name]) for side in sides
    }  # fmt: skip


def _parts(numbers: Sequence[int], few: int) -> Iterator[Sequence[int]]:
    for begin in range(0, len(numbers), few):
        yield numbers[begin : begin + few]


class _Asker:
    """One server, and whether it tells log-probabilities."""

    def __init__(self, side: Side, inquiry: Inquiry, keep: Keep) -> None:
        self.side, self.inquiry, self.keep = side, inquiry, keep
        self.tells = True

    async def ask(self, numbers: Sequence[int]) -> None:
        waiting = iter(numbers)
        async with connect_async(self.side.endpoint) as client:
            workers = min(self.inquiry.concurrency, len(numbers))
            await asyncio.gather(*(self._work(client, waiting) for _ in range(workers)))

    async def _work(self, client: httpx.AsyncClient, waiting: Iterator[int]) -> None:
        for number in waiting:
            self.keep(self.side, number, await self._said(client, self.inquiry.questions[number]))

    async def _said(self, client: httpx.AsyncClient, question: Question) -> Said:
        told = self.tells
        answer = await self._post(client, question, told=told)
        if answer.status_code == 400 and told:
            # some releases answer so to who asks for log-probabilities; the text is still worth it
            self.tells = False
            answer = await self._post(client, question, told=False)
        if answer.status_code != 200:
            raise refusal(self.side.endpoint, answer)
        try:
            return said_of(answer.json())
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise LaunchError(
                f"{self.side.endpoint.address} does not answer as an OpenAI-compatible server",
                hint=f"dflash chat {self.side.endpoint.address}",
                detail=answer.text[:200],
            ) from error

    async def _post(
        self, client: httpx.AsyncClient, question: Question, *, told: bool
    ) -> httpx.Response:
        import httpx

        body: dict[str, Any] = body_of(question, self.inquiry.style, self.side, told=told)
        try:
            async with asyncio.timeout(self.inquiry.patience):
                return await client.post(PATH, json=body)
        except TimeoutError:
            raise LaunchError(
                f"{self.side.endpoint.address} gave no whole answer within"
                f" {self.inquiry.patience:g} s",
                hint="--request-timeout allows more, --max-tokens asks for less",
            ) from None
        except httpx.HTTPError as error:
            raise unreachable(self.side.endpoint, error) from error
