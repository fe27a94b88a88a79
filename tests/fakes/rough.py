"""A server of vLLM's shape that misbehaves in one way; it runs in a thread of the test."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from tests.fakes.exposition import family
from tests.fakes.openai import HTTPServer

MODEL = "openai/gpt-oss-20b"
NEVER = 3600
PAGE = "<!doctype html><html><body>Welcome</body></html>"
MODELS = {
    "401": (401, json.dumps({"error": "Unauthorized"})),
    "404 models": (404, json.dumps({"detail": "Not Found"})),
    "500 models": (500, "Internal Server Error"),
    "models are a list": (200, json.dumps([{"id": MODEL}])),
    "models are text": (200, json.dumps({"data": "none"})),
}
METRICS = {
    "no metrics": (404, "Not Found"),
    "metrics 401": (401, "Unauthorized"),
    "metrics 500": (500, "Internal Server Error"),
    "empty metrics": (200, ""),
    "metrics html": (200, PAGE),
    "metrics garbage": (200, 'vllm:spec_decode_num_drafts_total{engine="0} x\n'),
}
USAGE: dict[str, Any] = {
    "odd usage": {"prompt_tokens": "7", "completion_tokens": None},
    "negative usage": {"prompt_tokens": 7, "completion_tokens": -5},
    "vast usage": {"prompt_tokens": 7, "completion_tokens": 10**30},
}
FIRST = {"garbage": b"data: {{{not json\n\n", "odd events": b"data: [1, 2]\n\ndata: null\n\n"}
"""Before the answer."""
MESSAGES: dict[str, Any] = {
    "null message": None,
    "content list": {"role": "assistant", "content": [{"type": "text", "text": "word"}]},
}
WHOLE = {"no choices": json.dumps({"choices": []}), "list answer": "[]", "garbage": "{{{not json"}
"""In place of an answer that is no stream."""


class Rough(BaseHTTPRequestHandler):
    """`fault`: the one way in which it misbehaves; empty: it does as it should."""

    protocol_version = "HTTP/1.1"
    fault = ""
    model = MODEL
    drafts = True
    place = ""
    """In the block, as its metrics name it."""
    asked = 0
    """Answers that were wanted so far."""
    counted = 0
    """Drafts so far."""
    looked = 0
    """How often its metrics were read."""

    def log_message(self, *args: Any) -> None:
        """Nothing."""

    @property
    def own(self) -> type[Rough]:
        return type(self)

    def do_GET(self) -> None:
        if self.fault == "redirect" and not self.path.startswith("/there"):
            self.reply(307, "", ("Location", f"/there{self.path}"))
        elif self.fault == "html":
            self.reply(200, PAGE)
        elif self.path == "/metrics":
            self._metrics()
        elif self.path == "/v1/models":
            self._models()
        elif self.path == "/version":
            self.reply(200, json.dumps({"version": "0.33.0"}))
        else:
            self.reply(404, json.dumps({"detail": "Not Found"}))

    def _models(self) -> None:
        if self.fault == "hangs":
            time.sleep(NEVER)
        usual = 200, json.dumps({"data": [{"id": self.model}]})
        self.reply(*MODELS.get(self.fault, usual))

    def _metrics(self) -> None:
        self.own.looked += 1
        first = self.looked == 1
        if self.fault == "metrics break":
            self.close_connection = True
            return
        if self.fault == "metrics vanish" and not first:
            self.reply(404, "Not Found")
            return
        drafts = {
            "metrics nan": float("nan"),
            "counters fall": 10_000 - 100 * self.looked,
            "counters begin again": 1000 if first else self.counted,
        }.get(self.fault, self.counted)
        odd = {"engine": "0", "position": self.place}
        name = "vllm:spec_decode_num_accepted_tokens_per_pos"
        more = family(name, "counter", (odd, 3)) if self.fault == "metrics position" else ""
        self.reply(*METRICS.get(self.fault, (200, self._exposition(drafts) + more)))

    def _exposition(self, drafts: float) -> str:
        if not self.drafts:
            return family("vllm:generation_tokens", "counter", ({"engine": "0"}, self.counted * 3))
        ranks = ({"engine": "0"}, drafts - drafts // 3), ({"engine": "1"}, drafts // 3)
        more = {"num_drafts": 1, "num_draft_tokens": 7, "num_accepted_tokens": 2}
        return "".join(
            family(f"vllm:spec_decode_{name}", "counter", *((of, n * times) for of, n in ranks))
            for name, times in more.items()
        )

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        self.own.asked += 1
        self.own.counted += 4 if self.drafts else 0
        match self.fault:
            case "429":
                said = {"error": {"message": "slow down"}}
                self.reply(429, json.dumps(said), ("Retry-After", "7"))
            case "every third" if self.asked % 3 == 0:
                self.reply(500, json.dumps({"error": {"message": "the third"}}))
            case "dies" if self.asked > 6:
                self.server.socket.close()
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
            case "post html":
                self.reply(200, PAGE)
            case "post redirect":
                self.reply(307, "", ("Location", "/elsewhere"))
            case "slow":
                time.sleep(2)
                self._answer(body)
            case "never answers":
                time.sleep(NEVER)
            case "resets":
                self.close_connection = True
            case _:
                self._answer(body)

    def _answer(self, body: dict[str, Any]) -> None:
        count = 0 if self.fault == "no tokens" else int(body.get("max_tokens") or 16)
        whole: Any = {"prompt_tokens": 7, "completion_tokens": count, "total_tokens": 7 + count}
        usage = USAGE.get(self.fault, whole)
        if body.get("stream"):
            self._stream(count, usage)
        else:
            self._whole(body, usage, count)

    def _stream(self, count: int, usage: Any) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if self.fault in FIRST:
            self._chunk(FIRST[self.fault])
        for _ in range(count):
            self._event({"choices": [{"index": 0, "delta": {"content": "word "}}]})
        if self.fault == "breaks off":
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        if self.fault == "no end":
            time.sleep(NEVER)
        while self.fault == "endless":
            self._event({"choices": [{"index": 0, "delta": {"content": "on "}}]})
            time.sleep(0.01)
        if self.fault != "no usage":
            self._event({"choices": [], "usage": usage})
        self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _whole(self, body: dict[str, Any], usage: Any, count: int) -> None:
        top = [{"token": "word ", "logprob": -0.1}, {"token": "other", "logprob": -3.0}]
        told: Any = {"content": [{"token": "word ", "logprob": -0.1, "top_logprobs": top}] * count}
        if self.fault == "odd logprobs":
            told = {"content": [{"token": "word "}] * count}
        message: Any = {"role": "assistant", "content": "word " * count}
        choice = {"index": 0, "message": MESSAGES.get(self.fault, message),
                  "logprobs": told if body.get("logprobs") else None}  # fmt: skip
        answer = json.dumps({"choices": [choice], "usage": usage})
        self.reply(200, WHOLE.get(self.fault, answer))

    def reply(self, status: int, said: str, *headers: tuple[str, str]) -> None:
        data = said.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        for header in headers:
            self.send_header(*header)
        self.end_headers()
        self.wfile.write(data)

    def _event(self, document: Any) -> None:
        self._chunk(b"data: " + json.dumps(document).encode() + b"\n\n")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()


class _Quiet(HTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves, or a connection that was closed on purpose."""


@contextmanager
def rough(
    fault: str = "", *, host: str = "127.0.0.1", certificate: Path | None = None, **changes: Any
) -> Iterator[str]:
    """Serve with this fault; the server's address."""
    made = type("_Quiet6", (_Quiet,), {
        "address_family": socket.AF_INET6 if ":" in host else socket.AF_INET,
    })  # fmt: skip
    server = made((host, 0), type("Bound", (Rough,), {"fault": fault, **changes}))
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=[0.05], daemon=True).start()
    scheme, shown = "https" if certificate else "http", f"[{host}]" if ":" in host else host
    try:
        yield f"{scheme}://{shown}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
