"""A hub with one small repository, one gated and nothing else: the parts of its API a snapshot asks."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.fakes.openai import HTTPServer

COMMIT = "1" * 40
FILES = {
    "config.json": b'{"model_type": "llama"}',
    "model.safetensors": b"weights",
    "chat_template.jinja": b"{{ messages }}",
    "original/model.safetensors": b"the same weights once more",
    "pytorch_model.bin": b"the same weights as a pickle",
}
SMALL, GATED = "org/small", "org/gated"


class HubHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: Any) -> None: ...

    def do_HEAD(self) -> None:
        self._route()

    def do_GET(self) -> None:
        self._route()

    def _route(self) -> None:
        path = self.path.partition("?")[0]
        if path.startswith((f"/api/models/{GATED}", f"/{GATED}/resolve")):
            self._refuse(403, "GatedRepo", "Access to model org/gated is restricted.")
        elif path.startswith(f"/api/models/{SMALL}/tree/"):
            self._json([_listed(name, data) for name, data in FILES.items()])
        elif path in (
            f"/api/models/{SMALL}/revision/main",
            f"/api/models/{SMALL}/revision/{COMMIT}",
        ):
            names = [{"rfilename": name} for name in FILES]
            self._json({"_id": "1", "id": SMALL, "sha": COMMIT, "siblings": names})
        elif path.startswith(f"/api/models/{SMALL}/revision/"):
            self._refuse(404, "RevisionNotFound", "Invalid rev id")
        elif path.startswith(f"/{SMALL}/resolve/{COMMIT}/"):
            self._file(path.split("/", 5)[5])
        else:
            self._refuse(404, "RepoNotFound", "Repository not found")

    def _file(self, name: str) -> None:
        headers = {"X-Repo-Commit": COMMIT, "ETag": f'"{_etag(FILES[name])}"'}
        self._send(200, FILES[name], headers)

    def _json(self, document: Any) -> None:
        self._send(200, json.dumps(document).encode(), {"Content-Type": "application/json"})

    def _refuse(self, status: int, code: str, message: str) -> None:
        self._send(status, b"{}", {"X-Error-Code": code, "X-Error-Message": message})

    def _send(self, status: int, data: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def _etag(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def _listed(name: str, data: bytes) -> dict[str, Any]:
    return {"type": "file", "path": name, "size": len(data), "oid": _etag(data)}


@contextmanager
def hub() -> Iterator[str]:
    """Its address, while the block runs."""
    with HTTPServer(("127.0.0.1", 0), HubHandler) as server:
        threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
