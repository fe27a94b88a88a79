"""A tokenizer of bytes and a decoder that says what it is told: the server's edges without torch."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import uvicorn

from dflash_deploy.server.app import Service, create_app
from dflash_deploy.server.jobs import Intake
from dflash_deploy.server.metrics import Metrics
from dflash_deploy.server.run import bind, url
from dflash_deploy.server.scheduler import Scheduler
from dflash_deploy.server.text import SamplingDefaults
from dflash_deploy.server.worker import Worker
from dflash_deploy.speculative.types import Chance, Sampling, Step

EOS = 256
NAMES = ("org/model", "model")
HELLO = {"model": "model", "messages": [{"role": "user", "content": "hello there"}]}


class ByteText:
    """One token a byte, so that a character of UTF-8 spans tokens; 256 ends an answer."""

    vocabulary = 257
    stop_token_ids = frozenset({EOS})
    defaults = SamplingDefaults(temperature=0.5, top_k=7)

    def __init__(self) -> None:
        self.options: Mapping[str, Any] = {}

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def encode_chat(
        self, messages: Sequence[Mapping[str, str]], options: Mapping[str, Any]
    ) -> list[int]:
        self.options = options
        return self.encode("".join(f"{m['role']}: {m['content']}\n" for m in messages))

    def decode(self, ids: Sequence[int]) -> str:
        return bytes(i for i in ids if i != EOS).decode(errors="replace")

    def token_bytes(self, token: int) -> bytes:
        return b"<end>" if token == EOS else bytes([token % 256])


Script = Callable[[str, Sampling], Sequence[int]]


def echo(prompt: str, sampling: Sampling) -> list[int]:
    """Answers with the last line of what it was asked."""
    return [*prompt.strip().split("\n")[-1].removeprefix("user: ").encode(), EOS]


class ScriptedDecoder:
    """Keeps the contract of `Decoder`: prefill gives one token, then blocks, or single tokens."""

    def __init__(
        self,
        script: Script = echo,
        *,
        block_size: int = 4,
        delay: float = 0.0,
        max_context: int = 4096,
    ) -> None:
        self.script = script
        self.block_size = block_size
        self.max_context = max_context
        self.delay = delay
        self.cycles: list[str] = []  # the prompt of each cycle, in the order they ran
        self.closed: list[str] = []
        self.samplings: list[Sampling] = []
        self.threads: set[int] = set()

    def generate(
        self, prompt_ids: Sequence[int], sampling: Sampling, *, speculate: bool = True
    ) -> Iterator[Step]:
        prompt = bytes(prompt_ids).decode()
        self.samplings.append(sampling)
        tokens = list(self.script(prompt, sampling))[: sampling.max_new_tokens]
        width = self.block_size if speculate else 1
        try:
            yield self._step(prompt, tokens[:1], 0, sampling.logprobs)
            for at in range(1, len(tokens), width):
                block = tokens[at : at + width]
                yield self._step(prompt, block, width - 1, sampling.logprobs)
        finally:
            self.closed.append(prompt)

    def together(self, sequences: Sequence[Iterator[Step]]) -> list[Step | Exception | None]:
        """One after another: the order of cycles is what tests look at."""
        outcomes: list[Step | Exception | None] = []
        for sequence in sequences:
            try:
                outcomes.append(next(sequence, None))
            except Exception as error:  # noqa: BLE001
                outcomes.append(error)
        return outcomes

    def _step(self, prompt: str, tokens: list[int], drafted: int, top: int | None) -> Step:
        self.threads.add(threading.get_ident())
        self.cycles.append(prompt)
        if self.delay:
            time.sleep(self.delay)
        chances = () if top is None else tuple(_chance(token, top) for token in tokens)
        return Step(tuple(tokens), drafted, len(tokens) - 1 if drafted else 0, chances)


def _chance(token: int, top: int) -> Chance:
    """-0.5 for what was said, -1.5 for the byte above it, -2.5 for the next."""
    return Chance(-0.5, tuple((token + i, -0.5 - i) for i in range(top)))


class Running:
    """A server on a free port, with its insides at hand."""

    def __init__(self, decoder: ScriptedDecoder, url: str, scheduler: Scheduler) -> None:
        self.decoder = decoder
        self.url = url
        self.scheduler = scheduler
        self.text = ByteText()

    def wait_until(self, what: Callable[[], bool], seconds: float = 5.0) -> None:
        end = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < end, "it did not happen in time"
            time.sleep(0.01)


@contextlib.contextmanager
def running(
    decoder: ScriptedDecoder | None = None,
    *,
    max_active: int = 4,
    max_waiting: int = 32,
    api_key: str | None = None,
    chat_template_kwargs: Mapping[str, Any] | None = None,
) -> Iterator[Running]:
    decoder = decoder or ScriptedDecoder()
    metrics = Metrics(NAMES[0], decoder.block_size)
    scheduler = Scheduler(decoder, metrics, max_active=max_active, max_waiting=max_waiting)
    listener = bind("127.0.0.1", 0)
    server = Running(decoder, url("127.0.0.1", listener), scheduler)
    intake = Intake(NAMES, decoder.max_context, server.text, chat_template_kwargs or {})
    app = create_app(Service(intake, scheduler, metrics, api_key))
    http = uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1))
    thread = threading.Thread(target=lambda: http.run(sockets=[listener]), daemon=True)
    scheduler.start(Worker())
    thread.start()
    try:
        server.wait_until(lambda: http.started)
        yield server
    finally:
        scheduler.stop()
        http.should_exit = True
        thread.join(5)
        scheduler.join(5)
        assert not thread.is_alive()
