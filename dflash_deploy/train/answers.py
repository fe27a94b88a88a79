"""The target's own answers: a draft learns to foretell its target, not the truth."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

from dflash_deploy.errors import LaunchError
from dflash_deploy.measure.client import request_body, stream_chat
from dflash_deploy.plan import Endpoint
from dflash_deploy.speculative.decoder import SpeculativeDecoder
from dflash_deploy.speculative.types import Sampling
from dflash_deploy.train import files
from dflash_deploy.train.batched import Continued
from dflash_deploy.train.blocks import Answer
from dflash_deploy.train.chat import Chat
from dflash_deploy.train.events import Stopped
from dflash_deploy.train.gpus import Devices
from dflash_deploy.train.prompts import Asked
from dflash_deploy.train.recipe import ANSWERS, Recipe

FILE, HELD_OUT = ANSWERS
IN_FLIGHT = 16
"""Requests that a server gets at once."""
GLANCE = 0.2
"""Seconds between two looks at whether to go on waiting for a server."""
Ask = Callable[[Asked], Answer]
Answered = Callable[[Sequence[Asked]], Iterator[Answer]]


def regenerate(
    whole: Path,
    asked: Sequence[Asked],
    answered: Answered,
    told: Callable[[int, int], None],
    stop: Callable[[], bool],
) -> list[Answer]:
    """All answers, in the order of the prompts; those that are there already are kept.

    `whole` is their file. Raises Stopped, and what `answered` raises; the answers until then are
    in another file beside it.
    """
    if whole.exists():
        return files.read_lines(whole, Answer)
    begun = whole.with_suffix(".begun.jsonl")
    done = files.read_lines(begun, Answer)
    files.rewrite(begun, done)
    told(len(done), len(asked))  # the first answer may take minutes, or never come
    with begun.open("ab") as log:
        for number, answer in enumerate(answered(asked[len(done) :]), len(done) + 1):
            files.append(log, answer)
            told(number, len(asked))
            if stop():
                raise Stopped
    begun.replace(whole)
    return files.read_lines(whole, Answer)


def warmth(recipe: Recipe, number: int) -> float:
    """The temperature of one answer: a draft is to know more than the likeliest ones."""
    drawn = Random(f"{recipe.seed} {number}").random() < recipe.sampled  # noqa: S311
    return recipe.temperature if drawn else 0.0


def from_here(recipe: Recipe, chat: Chat, model: Any) -> Ask:
    """Answers of the model in this process, token by token as it chose them."""
    decoder = SpeculativeDecoder(model)
    ends = chat.ends(model)

    def ask(one: Asked) -> Answer:
        prompt = chat.prompt(one.messages)
        room = min(recipe.answer_tokens, recipe.length - len(prompt))
        if room < 2 or len(prompt) + room > decoder.max_context:
            return Answer(one.id, [], [])
        sampling = Sampling(
            room, warmth(recipe, one.id), seed=recipe.seed + one.id, stop_token_ids=ends
        )
        said = [token for step in decoder.generate(prompt, sampling) for token in step.tokens]
        return answer_of(one, prompt, said)

    return ask


def from_server(recipe: Recipe, chat: Chat, endpoint: Endpoint) -> Ask:
    """Answers of a server, whose text becomes tokens again here."""

    def ask(one: Asked) -> Answer:
        prompt = chat.prompt(one.messages)
        room = min(recipe.answer_tokens, recipe.length - len(prompt))
        if room < 2:
            return Answer(one.id, [], [])
        body = request_body(
            endpoint, one.messages, max_tokens=room, temperature=warmth(recipe, one.id),
            template_kwargs=chat.options, extra={"seed": recipe.seed + one.id},
        )  # fmt: skip
        try:
            pieces = list(stream_chat(endpoint, body))
        except LaunchError as error:
            raise LaunchError(
                error.message, detail=error.detail,
                hint=f"{error.hint or 'once it answers'}; then the same command, which goes on",
            ) from error  # fmt: skip
        said = chat.text("".join(piece.content for piece in pieces))
        complete = any(piece.finish_reason == "stop" for piece in pieces)
        if complete and chat.end is not None:
            said.append(chat.end)
        return answer_of(one, prompt, said)

    return ask


def none(_: Sequence[Asked]) -> Iterator[Answer]:
    return iter(())


def answer_of(one: Asked, prompt: list[int], said: list[int]) -> Answer:
    return Answer(one.id, [*prompt, *said], [0] * len(prompt) + [1] * len(said))


def on_gpus(recipe: Recipe, chat: Chat, devices: Devices, ends: frozenset[int]) -> Answered:
    """Answers of the model's copies, thousands at once, token by token as they chose them."""

    def answered(prompts: Sequence[Asked]) -> Iterator[Answer]:
        for begin in range(0, len(prompts), devices.window):
            window = prompts[begin : begin + devices.window]
            rows = {one.id: row for one in window if (row := _row(recipe, chat, one))}
            said = dict(zip(rows, devices.continued(
                list(rows.values()), ends, recipe.seed * 1_000_003 + window[0].id
            ), strict=True))  # fmt: skip
            for one in window:
                row = rows.get(one.id)
                yield answer_of(one, row.prompt if row else [], said.get(one.id, []))

    return answered


def _row(recipe: Recipe, chat: Chat, one: Asked) -> Continued | None:
    prompt = chat.prompt(one.messages)
    room = min(recipe.answer_tokens, recipe.length - len(prompt))
    return None if room < 2 else Continued(prompt, room, warmth(recipe, one.id))


def in_turn(ask: Ask) -> Answered:
    return lambda prompts: map(ask, prompts)


def side_by_side(ask: Ask, stop: Callable[[], bool]) -> Answered:
    """Several requests at once, the answers in the order of the prompts. Raises Stopped."""

    def answered(prompts: Sequence[Asked]) -> Iterator[Answer]:
        waiting: deque[Future[Answer]] = deque()
        for prompt in prompts:
            waiting.append(_begun(ask, prompt))
            if len(waiting) >= IN_FLIGHT:
                yield _awaited(waiting.popleft(), stop)
        while waiting:
            yield _awaited(waiting.popleft(), stop)

    return answered


def _begun(ask: Ask, prompt: Asked) -> Future[Answer]:
    """The answer, in a thread that nobody waits for at the end: a server may never answer."""
    future: Future[Answer] = Future()

    def work() -> None:
        try:
            future.set_result(ask(prompt))
        except BaseException as error:  # noqa: BLE001 - whoever waits for the answer gets it
            future.set_exception(error)

    Thread(target=work, daemon=True).start()
    return future


def _awaited(future: Future[Answer], stop: Callable[[], bool]) -> Answer:
    while not future.done():
        if stop():
            raise Stopped
        wait([future], GLANCE)
    return future.result()


def usable(answers: Iterable[Answer]) -> list[Answer]:
    """Those with two tokens of an answer: one to stand on and one to foretell."""
    return [answer for answer in answers if sum(answer.loss_mask) >= 2]
