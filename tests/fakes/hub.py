"""A hub that speaks the parts of the API that the real client asks, and misbehaves when told to.

Large files are LFS: `resolve` redirects to a CDN, a second server with an origin of its own, whose
links carry a signature. `Fault`s are used up in order by the requests they match.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any, Literal
from urllib.parse import unquote

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
GATED_FILES = dict(FILES)  # tests change FILES
GOOD_TOKEN = "hf_good"
REFUSALS = {
    None: "Invalid username or password.", "Bearer hf_old": 'User Access Token "x" is expired',
}  # fmt: skip
LFS = (".safetensors", ".bin", ".gguf")


@dataclass
class Repo:
    files: dict[str, bytes]
    commit: str = COMMIT
    gated: bool = False
    licence: str | None = "apache-2.0"


@dataclass
class Fault:
    """What goes wrong with the next `times` requests whose path contains `at`."""

    at: str
    kind: Literal["status", "cut", "wrong", "stall", "drip", "whole", "shifted", "garbage"]
    status: int = 503
    headers: dict[str, str] = field(default_factory=dict)
    after: int = 0
    """Bytes that are sent rightly first."""
    pause: float = 0.0
    times: int = 1


@dataclass
class Asked:
    """A request as it came."""

    method: str
    path: str
    range: str | None
    token: str | None
    cdn: bool


@dataclass
class Hub:
    repos: dict[str, Repo] = field(
        default_factory=lambda: {SMALL: Repo(FILES), GATED: Repo(GATED_FILES, gated=True)}
    )
    faults: list[Fault] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    cdn: str = ""
    url: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fault(self, path: str) -> Fault | None:
        with self.lock:
            for fault in self.faults:
                if fault.times and fault.at in path:
                    fault.times -= 1
                    return fault
        return None

    def content(self, digest: str) -> bytes:
        return next(
            data for repo in self.repos.values() for data in repo.files.values()
            if hashlib.sha256(data).hexdigest() == digest
        )  # fmt: skip


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, *args: Any) -> None: ...

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        cdn = self.path.startswith("/cdn/")
        token = self.headers.get("Authorization")
        self.hub.asked.append(Asked(self.command, self.path, self.headers.get("Range"), token, cdn))
        fault = self.hub.fault(self.path)
        if fault and fault.kind == "status":
            self._send(fault.status, b"trouble", fault.headers)
        elif fault and fault.kind == "garbage":
            self._send(200, b"<html>please log in</html>", {"Content-Type": "text/html"})
        elif cdn:
            data = self.hub.content(self.path.split("/")[2].partition("?")[0])
            self._content(data, {}, fault)
        else:
            self._route(unquote(self.path.partition("?")[0]), token, fault)

    def _whoami(self, token: str | None) -> None:
        """As `/api/whoami-v2`: `hf_good` is somebody's, `hf_old` was."""
        if token == f"Bearer {GOOD_TOKEN}":
            auth = {"type": "access_token", "accessToken": {"displayName": "x", "role": "read"}}
            self._json({"type": "user", "name": "ada", "auth": auth})
            return
        said = REFUSALS.get(token, "Invalid credentials in Authorization header")
        self._send(401, json.dumps({"error": said}).encode(), {"X-Error-Message": said})

    def _route(self, path: str, token: str | None, fault: Fault | None) -> None:
        if path == "/api/whoami-v2":
            self._whoami(token)
            return
        words = path.strip("/").removeprefix("datasets/").split("/")
        name = "/".join(words[2:4] if words[0] == "api" else words[:2])
        repo = self.hub.repos.get(name)
        if token == "Bearer hf_bad":
            headers = {"X-Error-Message": "Invalid credentials in Authorization header"}
            self._send(401, b"{}", headers)
        elif repo is None:
            self._refuse(404, "RepoNotFound", "Repository not found")
        elif words[0] == "api":
            self._api(name, repo, words[4:], token)
        elif words[2] == "resolve" and words[3] in (repo.commit, "main"):
            self._resolve(repo, "/".join(words[4:]), token, fault)
        else:
            self._refuse(404, "RevisionNotFound", "Invalid rev id")

    def _api(self, name: str, repo: Repo, words: list[str], token: str | None) -> None:
        revision = words[1] if len(words) > 1 else "main"
        if words == ["auth-check"]:
            if self._lets_in(repo, token):
                self._send(200, b"", {})
        elif revision not in ("main", repo.commit):
            self._refuse(404, "RevisionNotFound", "Invalid rev id")
        elif words and words[0] == "tree":
            self._json([_listed(path, data) for path, data in repo.files.items()])
        else:
            names = [{"rfilename": path} for path in repo.files]
            self._json({"_id": "1", "id": name, "sha": repo.commit, "siblings": names,
                        "gated": "manual" if repo.gated else False,
                        "cardData": {"license": repo.licence}})  # fmt: skip

    def _lets_in(self, repo: Repo, token: str | None) -> bool:
        if repo.gated and token != f"Bearer {GOOD_TOKEN}":
            status = 403 if token else 401
            self._refuse(status, "GatedRepo", "Access to this model is restricted.")
            return False
        return True

    def _resolve(self, repo: Repo, path: str, token: str | None, fault: Fault | None) -> None:
        if not self._lets_in(repo, token):
            return
        if path not in repo.files:
            self._refuse(404, "EntryNotFound", "Entry not found")
            return
        data = repo.files[path]
        headers = {"X-Repo-Commit": repo.commit}
        if path.endswith(LFS):
            digest = hashlib.sha256(data).hexdigest()
            headers |= {"X-Linked-Etag": f'"{digest}"', "X-Linked-Size": str(len(data)),
                        "Location": f"{self.hub.cdn}/cdn/{digest}?signed"}  # fmt: skip
            self._send(302, b"", headers)
        else:
            self._content(data, headers | {"ETag": f'"{_etag(data)}"'}, fault)

    def _content(self, data: bytes, headers: dict[str, str], fault: Fault | None) -> None:
        first, last, status = self._span(len(data), fault)
        if first >= len(data) > 0:
            self._send(416, b"", {"Content-Range": f"bytes */{len(data)}"})
            return
        if status == 206:
            first += bool(fault and fault.kind == "shifted")
            headers = headers | {"Content-Range": f"bytes {first}-{last}/{len(data)}"}
        part = data[first : last + 1]
        if fault is None or fault.kind in ("whole", "shifted"):
            self._send(status, part, headers)
        else:
            self._badly(status, part, headers, fault)

    def _span(self, size: int, fault: Fault | None) -> tuple[int, int, int]:
        asked = self.headers.get("Range")
        if not asked or (fault and fault.kind == "whole"):
            return 0, size - 1, 200
        first, _, last = asked.removeprefix("bytes=").partition("-")
        return int(first), min(int(last or size), size - 1), 206

    def _badly(self, status: int, data: bytes, headers: dict[str, str], fault: Fault) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command == "HEAD":
            return
        good, rest = data[: fault.after], data[fault.after :]
        self.wfile.write(good)
        self.wfile.flush()
        if fault.kind == "wrong":
            self.wfile.write(bytes(byte ^ 255 for byte in rest))
        elif fault.kind == "drip":
            for byte in rest:
                time.sleep(fault.pause)
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
        else:
            time.sleep(fault.pause)  # a stall; and a cut, with no pause
            self.close_connection = True

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


class Quiet(HTTPServer):
    def handle_error(self, *args: Any) -> None:
        """Clients that go away are what this is for."""


def _etag(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def _listed(path: str, data: bytes) -> dict[str, Any]:
    entry = {"type": "file", "path": path, "size": len(data), "oid": _etag(data)}
    if path.endswith(LFS):
        digest = hashlib.sha256(data).hexdigest()
        entry["lfs"] = {"oid": digest, "size": len(data), "pointerSize": 134}
    return entry


@contextmanager
def serving(fake: Hub) -> Iterator[Hub]:
    """The hub and its CDN, while the block runs."""
    handler = type("Bound", (Handler,), {"hub": fake})
    with Quiet(("127.0.0.1", 0), handler) as main, Quiet(("127.0.0.1", 0), handler) as cdn:
        for server in (main, cdn):
            threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        fake.url = f"http://127.0.0.1:{main.server_port}"
        fake.cdn = f"http://localhost:{cdn.server_port}"
        yield fake
        main.shutdown()
        cdn.shutdown()


@contextmanager
def hub() -> Iterator[str]:
    """The address of one with a small and a gated repository."""
    with serving(Hub()) as fake:
        yield fake.url


def tensors(size: int, seed: int = 0) -> bytes:
    """A real safetensors file of one tensor with `size` bytes, different for each seed."""
    data = b"".join(
        hashlib.sha256(b"%d %d" % (seed, i)).digest() for i in range(size // 32 + 1)
    )[:size]  # fmt: skip
    entry = {"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}
    header = json.dumps(entry).encode()
    return len(header).to_bytes(8, "little") + header + data
