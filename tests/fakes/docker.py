"""A Docker daemon on a socket: `/_ping`, `/version` and `/info`, as Docker 28 answers them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer
from typing import Any

RUNC = {"path": "runc"}
INFO: dict[str, Any] = {
    "OperatingSystem": "Ubuntu 24.04.1 LTS", "ServerVersion": "28.3.0", "DefaultRuntime": "runc",
    "Runtimes": {"io.containerd.runc.v2": RUNC, "runc": RUNC},
    "CDISpecDirs": [], "DiscoveredDevices": None,
}  # fmt: skip
NVIDIA = INFO | {"Runtimes": INFO["Runtimes"] | {"nvidia": {"path": "nvidia-container-runtime"}}}
CDI = INFO | {"DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=all"}]}


@contextmanager
def daemon(socket: Path, info: dict[str, Any] | None = None) -> Iterator[str]:
    """Its DOCKER_HOST, while the block runs."""
    answers: dict[str, bytes] = {
        "/_ping": b"OK", "/version": json.dumps({"Version": "28.3.0", "ApiVersion": "1.51"}).encode(),
        "/info": json.dumps(INFO if info is None else info).encode(),
    }  # fmt: skip

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args: Any) -> None: ...

        def do_GET(self) -> None:
            data = answers.get(self.path)
            self.send_response(200 if data else 404)
            self.end_headers()
            self.wfile.write(data or b'{"message": "page not found"}')

    with ThreadingUnixStreamServer(str(socket), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        yield f"unix://{socket}"
        server.shutdown()
