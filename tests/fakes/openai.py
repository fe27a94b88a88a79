"""OpenAI's wire format as both engines speak it: models, chat, completions, errors, streams."""

from __future__ import annotations

import json
import socket
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.fakes.knobs import Knobs
from tests.fakes.lifecycle import CORE_DIED, crash, held
from tests.fakes.said import WORDS, logprobs, tokens


@dataclass
class Server:
    """One fake engine's state: who it is, what it counted."""

    name: str
    knobs: Knobs
    served: tuple[str, ...]
    block_size: int | None
    """Tokens of a draft block, the bonus included; None: started without speculation."""
    api_key: str | None
    ready: bool = True
    drafts: int = 0
    accepted: int = 0
    tokens: int = 0
    answers: int = 0
    requests: int = 0
    cached: int = 0
    """Prompt tokens of prompts that came before, word for word."""
    context: int | None = None
    """None: nobody said."""
    schedule: tuple[tuple[int, int, int], ...] = ()
    """(first, last, draft tokens) by requests in flight, where drafting follows the load."""
    streams: int = 0
    """Answers that are under way."""
    seen: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)
    began: float = field(default_factory=time.time)

    def cache(self, body: dict[str, Any]) -> None:
        """Count a prompt that was asked before as found in the prefix cache."""
        asked = json.dumps(body.get("messages") or body.get("prompt"))
        with self.lock:
            self.cached += 7 if asked in self.seen else 0
            self.seen.add(asked)

    @property
    def dead(self) -> bool:
        """Whether its core crashed, though its API still answers."""
        return bool(self.knobs.crash_on) and self.requests >= (self.knobs.crash_on or 0)

    @property
    def drafted(self) -> int:
        """Draft tokens of a step with as many requests as there are now."""
        most = (self.block_size or 1) - 1
        reached = [tokens for first, _, tokens in self.schedule if first <= max(self.streams, 1)]
        return min(most, reached[-1]) if reached else most

    def step(self) -> int:
        """Take as long as a step does; the tokens that it commits to a request."""
        drafted, slow = self.drafted, self.knobs.slow_drafts
        crowded = slow is not None and drafted >= slow[0] and self.streams >= slow[1]
        time.sleep(self.knobs.chunk_delay + (slow[2] if slow and crowded else 0))
        return min(max(1, round(self.knobs.acceptance)), drafted + 1) if self.block_size else 1

    @property
    def bend(self) -> str | None:
        """How a server with a draft bends the answer that it just counted."""
        if self.block_size is None or self.knobs.bend is None:
            return None
        kind, every = self.knobs.bend
        return kind if self.answers % every == 0 else None

    def speculate(self, tokens: int) -> tuple[int, int]:
        """Count an answer of so many tokens; its drafts (verify steps) and accepted tokens."""
        with self.lock:
            self.tokens += tokens
            self.answers += 1
        if self.block_size is None or not self.drafted:
            return 0, 0  # as vLLM: where its schedule drafts nothing, it counts no cycle
        length = min(max(self.knobs.acceptance, 1.0), float(self.drafted + 1))
        drafts = max(1, round(tokens / length))
        with self.lock:
            self.drafts += drafts
            self.accepted += tokens - drafts
        return drafts, tokens - drafts


class Handler(BaseHTTPRequestHandler):
    """Routes shared by both engines; a subclass adds its own."""

    protocol_version = "HTTP/1.1"
    state: Server

    def log_message(self, *args: Any) -> None:
        """The engines' access log adds nothing to a test."""

    def do_GET(self) -> None:
        if self.path.startswith("/v1") and not self._admitted():
            return
        if self.path == "/v1/models":
            more = {"max_model_len": self.state.context} if self.state.context else {}
            data = [{"id": name, "object": "model", **more} for name in self.state.served]
            self.reply(200, {"object": "list", "data": data})
        elif not self.get(self.path):
            self.reply(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        if self.path.startswith("/v1") and not self._admitted():
            return
        if self.path in ("/v1/chat/completions", "/v1/completions"):
            self._complete(body, chat="chat" in self.path)
        elif self.path == "/tokenize":
            words = body["prompt"].split()
            self.reply(200, {"count": len(words), "tokens": [*range(len(words))]})
        elif not self.post(self.path, body):
            self.reply(404, {"detail": "Not Found"})

    def get(self, path: str) -> bool:
        return False

    def post(self, path: str, body: dict[str, Any]) -> bool:
        return False

    def known_model(self, model: object) -> bool:
        return True

    def refuse(self, body: dict[str, Any]) -> str | None:
        """Why this body is a 400, if it is."""
        if body.get("logprobs") and self.state.knobs.logprobs == "refuse":
            return "log probabilities are not supported here."
        return None

    def decorate(
        self, answer: dict[str, Any], body: dict[str, Any], drafts: int, tokens: int
    ) -> None:
        """Add the engine's own fields to an answer."""

    def reply(self, status: int, document: Any) -> None:
        data = document.encode() if isinstance(document, str) else json.dumps(document).encode()
        self.send_response(status)
        kind = "text/plain; version=0.0.4" if isinstance(document, str) else "application/json"
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def error(self, status: int, message: str, kind: str = "BadRequestError") -> None:
        self.reply(
            status,
            {"error": {"message": message, "type": kind, "param": None, "code": status}},
        )

    def _admitted(self) -> bool:
        key = self.state.api_key
        if key is not None and self.headers.get("Authorization") != f"Bearer {key}":
            self.reply(401, {"error": "Unauthorized"})
            return False
        held(self.state.knobs.hold_answers)
        time.sleep(self.state.knobs.answer_delay)
        with self.state.lock:
            self.state.requests += 1
        if self.state.dead:
            if self.state.requests == self.state.knobs.crash_on:
                crash(self.state.knobs)
            self.error(500, CORE_DIED, "InternalServerError")
            return False
        every = self.state.knobs.fail_every
        if every and self.state.requests % every == 0:
            self.error(500, f"the fake fails every {every}. request", "ServerError")
            return False
        if self.state.knobs.status is not None:
            self.error(self.state.knobs.status, "the fake was told to answer so", "ServerError")
            return False
        return True

    def _complete(self, body: dict[str, Any], *, chat: bool) -> None:
        if not self.known_model(body.get("model")):
            self.error(404, f"The model `{body.get('model')}` does not exist.", "NotFoundError")
            return
        if refusal := self.refuse(body):
            self.error(400, refusal)
            return
        count = int(body.get("max_completion_tokens") or body.get("max_tokens") or 16)
        drafts, _ = self.state.speculate(count)
        self.state.cache(body)
        usage = {"prompt_tokens": 7, "completion_tokens": count, "total_tokens": count + 7}
        frame = {"id": "cmpl-1", "created": int(time.time()), "model": self.state.served[0]}
        if body.get("stream"):
            with self.state.lock:
                self.state.streams += 1
            try:
                self._stream(frame, body, usage, drafts, chat=chat)
            finally:
                with self.state.lock:
                    self.state.streams -= 1
            return
        choice: dict[str, Any] = {"index": 0, "finish_reason": "length"}
        said = tokens(count, body, self.state.bend if chat else None)
        text = "".join(said)
        thought = _thinking(body)
        if chat:
            told = body.get("logprobs") and self.state.knobs.logprobs != "none"
            choice["logprobs"] = logprobs(said, body.get("top_logprobs") or 0) if told else None
            choice["message"] = {"role": "assistant", "content": text} | (
                {self.reasoning_key: "Let me think."} if thought else {}
            )
        else:
            choice["text"] = text
        kind = "chat.completion" if chat else "text_completion"
        answer = {**frame, "object": kind, "choices": [choice], "usage": usage}
        self.decorate(answer, body, drafts, count)
        self.reply(200, answer)

    # vLLM 0.33 says `reasoning`, SGLang `reasoning_content`
    reasoning_key = "reasoning"

    def _stream(
        self, frame: dict[str, Any], body: dict[str, Any], usage: Any, drafts: int, *, chat: bool
    ) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        kind = "chat.completion.chunk" if chat else "text_completion"
        tokens = usage["completion_tokens"]
        if chat and _thinking(body):
            self._event({**frame, "object": kind, "choices": [_delta({self.reasoning_key: "Hm."})]})
        begin = 0
        while begin < tokens:
            # several tokens a chunk, as speculation commits them: chunks are not tokens
            end = min(begin + self.state.step(), tokens)
            text = "".join(WORDS[i % len(WORDS)] for i in range(begin, end))
            choice = _delta({"content": text}) if chat else {"index": 0, "text": text}
            begin = end
            self._event({**frame, "object": kind, "choices": [choice]})
            if self.state.knobs.break_stream:
                self.close_connection = True
                return
        last = _delta({}) if chat else {"index": 0, "text": ""}
        self._event({**frame, "object": kind, "choices": [last | {"finish_reason": "length"}]})
        wanted = (body.get("stream_options") or {}).get("include_usage")
        if wanted and not self.state.knobs.no_usage:
            final = {**frame, "object": kind, "choices": [], "usage": usage}
            self.decorate(final, body, drafts, tokens)
            self._event(final)
        self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _event(self, document: Any) -> None:
        self._chunk(b"data: " + json.dumps(document).encode() + b"\n\n")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()


def _thinking(body: dict[str, Any]) -> bool:
    return bool((body.get("chat_template_kwargs") or {}).get("enable_thinking"))


def _delta(delta: dict[str, Any]) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "finish_reason": None}


class HTTPServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024
    """The standard 5 make some of a few clients that come at once wait a second."""

    def server_bind(self) -> None:
        # as the engines do: what a server that ended left of its connections is in nobody's way
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # the standard one looks its own name up in the DNS: seconds on some machines
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
