"""A registry of images on this machine: one image of one layer, as Docker's HTTP API v2 gives it."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

NAME, TAG = "engine", "v1"
UNKNOWN = b'{"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}'
MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


@contextmanager
def registry() -> Iterator[tuple[str, str]]:
    """Its address (dockerd asks one on the loopback without TLS), and the image's digest."""
    manifest, blobs = _image()
    digest = _digest(manifest)

    class Registry(BaseHTTPRequestHandler):
        def log_message(self, *args: Any) -> None: ...

        def do_GET(self) -> None:
            *_, kind, what = self.path.rstrip("/").split("/")
            found = {"v2": b"{}"}.get(what) or blobs.get(what)
            if kind == "manifests" and what in (TAG, digest):
                found = manifest
            self.send_response(200 if found else 404)
            found = found or UNKNOWN
            self.send_header("Content-Type", MANIFEST if kind == "manifests" else "text/plain")
            self.send_header("Docker-Content-Digest", digest if kind == "manifests" else what)
            self.send_header("Content-Length", str(len(found)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(found)

        do_HEAD = do_GET  # noqa: N815 - as the base class calls it

    with ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        threading.Thread(target=server.serve_forever, args=[0.05], daemon=True).start()
        yield f"127.0.0.1:{server.server_port}", digest
        server.shutdown()


def _image() -> tuple[bytes, dict[str, bytes]]:
    """Its manifest, and the layer and configuration that this names."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        info = tarfile.TarInfo("engine")
        info.size = 6
        tar.addfile(info, io.BytesIO(b"engine"))
    plain = made.getvalue()
    layer = gzip.compress(plain, mtime=0)
    layers = {"type": "layers", "diff_ids": [_digest(plain)]}
    config = json.dumps(
        {"architecture": "amd64", "os": "linux", "config": {}, "rootfs": layers}
    ).encode()
    document = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": _named("application/vnd.docker.container.image.v1+json", config),
        "layers": [_named("application/vnd.docker.image.rootfs.diff.tar.gzip", layer)],
    }
    return json.dumps(document).encode(), {_digest(blob): blob for blob in (layer, config)}


def _named(kind: str, blob: bytes) -> dict[str, Any]:
    return {"mediaType": kind, "size": len(blob), "digest": _digest(blob)}


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
