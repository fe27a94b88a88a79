"""One file of the hub into a partial one: resumed, cut when it stalls, and proven at the end."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from dflash_deploy.errors import DownloadError
from dflash_deploy.hub.listing import File
from dflash_deploy.hub.patience import PASSING, Passing, Patience, Persistence, Stopped, retry_after

if TYPE_CHECKING:
    import httpx

SEGMENT = 4 << 30
"""Bytes asked for at once: signed links expire, and the hub's CDN answers 50 GB at most."""
READ = 1 << 20


class Link:
    """The way to the hub that all files of a pull share."""

    def __init__(
        self, endpoint: str, patience: Patience, stop: threading.Event,
        on_wait: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.endpoint = endpoint.rstrip("/")
        self.patience = patience
        self.stop = stop
        self._on_wait = on_wait

    def tell(self, line: str) -> None:
        """Say why it takes longer. Raises Stopped: whoever was told to stop says no more,

        and a thread in the middle of a line would abort the interpreter's end.
        """
        if self.stop.is_set():
            raise Stopped
        self._on_wait(line)

    def persistence(self, name: str, *, greets: bool = False) -> Persistence:
        """`greets`: for the first question, which a hub that is not there leaves open."""
        return Persistence(
            self.patience, self.stop, lambda line: self.tell(f"{name}: {line}"), greets=greets
        )

    def url(self, repository: str, commit: str, path: str) -> str:
        return f"{self.endpoint}/{repository}/resolve/{commit}/{quote(path)}"

    @contextmanager
    def stream(self, url: str, span: tuple[int, int] | None) -> Iterator[httpx.Response]:
        """Redirects are followed, anew each time; the token goes to the hub alone."""
        import httpx
        from huggingface_hub import constants, get_session
        from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

        headers = build_hf_headers() | {"Accept-Encoding": "identity"}
        if span:
            headers["Range"] = f"bytes={span[0]}-{span[1] - 1}"
        stall = self.patience.stall or float(constants.HF_HUB_DOWNLOAD_TIMEOUT)
        times = httpx.Timeout(stall, connect=self.patience.answer)
        with get_session().stream("GET", url, headers=headers, timeout=times) as response:
            yield response


class Reception:
    """The partial file of one blob, its hash so far, and how far both are."""

    def __init__(self, link: Link, url: str, file: File, on_bytes: Callable[[int], None]) -> None:
        self.link = link
        self.url = url
        self.file = file
        self.on_bytes = on_bytes
        """Told how many bytes there are; fewer than before when it had to start again."""
        self.at = 0
        self.hash = file.hasher()
        self.persistence = link.persistence(file.path)
        self.counted = 0
        """The furthest point at which headway was counted: what comes again is none."""

    def into(self, part: Path) -> bool:
        """Bring the partial file to its full size; whether it then is what the hub lists."""
        with part.open("a+b", buffering=0) as out:
            self.take_up(out)
            while self.at < self.file.size:
                self.persistence.ask(lambda: self.request(out))
            os.fsync(out.fileno())
        return bool(self.hash.hexdigest() == self.file.digest)

    def take_up(self, out: FileIO) -> None:
        """Go on from what an earlier run left, hashed once more."""
        if os.fstat(out.fileno()).st_size > self.file.size:
            self.restart(out)
        out.seek(0)
        while chunk := out.read(READ):
            self.check_stop()
            self.hash.update(chunk)
            self.at += len(chunk)
        self.on_bytes(self.at)

    def restart(self, out: FileIO) -> None:
        out.truncate(0)
        self.at, self.hash = 0, self.file.hasher()
        self.on_bytes(0)

    def request(self, out: FileIO) -> None:
        """Ask for what is missing, and write what comes. Raises what may pass, or DownloadError."""
        end = min(self.file.size, self.at + SEGMENT)
        span = (self.at, end) if (self.at, end) != (0, self.file.size) else None
        with self.link.stream(self.url, span) as response:
            self.check(response)
            if response.status_code == 416 or (self.at and response.status_code == 200):
                self.restart(out)  # it does not know ranges, or not this one
                if response.status_code == 416:
                    raise Passing("the hub would not go on from there")
            before = self.at
            for chunk in self.timely(response.iter_bytes()):
                self.write(out, chunk[: self.file.size - self.at])
                if self.at == self.file.size:
                    return
        if self.at == before:
            raise Passing("the answer was empty")
        if self.at < end:
            raise Passing(f"the answer ended {end - self.at} bytes early")

    def timely(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """The same, until they come slower than a connection that works."""
        patience, since, got = self.link.patience, time.monotonic(), 0
        for chunk in chunks:
            self.check_stop()
            yield chunk
            got += len(chunk)
            spent = time.monotonic() - since
            if spent > patience.window:
                if got < patience.slowest * spent:
                    raise Passing(f"only {got} bytes came in {spent:.0f} s")
                since, got = time.monotonic(), 0

    def write(self, out: FileIO, chunk: bytes) -> None:
        view = memoryview(chunk)
        while view:
            view = view[out.write(view) :]
        self.hash.update(chunk)
        self.at += len(chunk)
        self.on_bytes(self.at)
        if self.at - self.counted >= self.link.patience.gain:
            self.counted = self.at
            self.persistence.gained()

    def check(self, response: httpx.Response) -> None:
        """Raise for an answer that brings none of the bytes asked for."""
        from huggingface_hub.utils import hf_raise_for_status  # type: ignore[attr-defined]

        status = response.status_code
        if status in PASSING:
            raise Passing(f"the hub answered {status}", after=retry_after(response.headers))
        if response.history and status in (400, 401, 403, 404, 410):
            raise Passing(f"the link to the file has expired ({status})")
        if status == 206 and not _starts(response, self.at):
            raise Passing("the hub answered another part of the file")
        if status != 416:
            hf_raise_for_status(response)
        if status not in (200, 206, 416):
            raise DownloadError(
                f"{self.file.path}: the hub answered {status}", hint="the same command again"
            )

    def check_stop(self) -> None:
        if self.link.stop.is_set():
            raise Stopped


def _starts(response: Any, at: int) -> bool:
    said = str(response.headers.get("Content-Range", ""))
    return said.startswith(f"bytes {at}-")
