"""Many files at once into the cache, each under the lock that the hub client takes as well."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from dflash_deploy.errors import DownloadError
from dflash_deploy.hub.cache import Cached
from dflash_deploy.hub.listing import File
from dflash_deploy.hub.patience import Stopped
from dflash_deploy.hub.progress import Progress
from dflash_deploy.hub.receive import Link, Reception

AT_ONCE = 8
DRAWN_EVERY = 0.2
"""Seconds between two looks at the progress."""
GRACE = 1.0
"""Seconds that the others get to stop when one failed."""


@dataclass(frozen=True)
class Job:
    cached: Cached
    repository: str
    commit: str
    file: File


def transfer(
    jobs: Sequence[Job], link: Link, progress: Progress, watch: Callable[[], None]
) -> None:
    """Bring all files; the first failure stops the others and is raised.

    What has come stays for the next run to go on from. The threads are daemons: a read that hangs
    does not keep an interrupted command alive.
    """
    # the largest first: they decide how long it takes
    waiting: queue.SimpleQueue[Job] = queue.SimpleQueue()
    for job in sorted(jobs, key=lambda job: -job.file.size):
        waiting.put(job)
    failures: list[BaseException] = []

    def work() -> None:
        with suppress(queue.Empty, Stopped):
            try:
                while not link.stop.is_set():
                    bring(waiting.get_nowait(), link, progress)
            except (queue.Empty, Stopped):
                raise
            except BaseException as error:  # noqa: BLE001  # raised again by the one who waits
                failures.append(error)
                link.stop.set()

    threads = [threading.Thread(target=work, daemon=True) for _ in jobs[:AT_ONCE]]
    for thread in threads:
        thread.start()
    try:
        while any(thread.is_alive() for thread in threads) and not failures:
            next(thread for thread in threads if thread.is_alive()).join(DRAWN_EVERY)
            watch()
    finally:
        link.stop.set()
        until = time.monotonic() + GRACE
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
    if failures:
        raise failures[0]


def bring(job: Job, link: Link, progress: Progress) -> None:
    """One file, received, proven and only then given its name. Raises DownloadError."""
    cached, file = job.cached, job.file
    blob, part, key = cached.blob(file), cached.partial(file), (job.repository, file.digest)
    blob.parent.mkdir(parents=True, exist_ok=True)
    with alone(job, link):
        if cached.find(job.commit, file):  # another pull had it, while this one waited
            progress.tell(key, file.size)
            return
        for _ in range(2):
            found = Reception(
                link, link.url(job.repository, job.commit, file.path), file,
                lambda at: progress.tell(key, at),
            )  # fmt: skip
            if found.into(part):
                part.replace(blob)
                return
            part.unlink()  # what came was damaged, or what an earlier run had left
            progress.tell(key, 0)
            link.tell(f"{file.path} is not what the hub lists: fetching it again")
    raise DownloadError(
        f"{file.path} of {job.repository} came damaged twice, and was removed",
        hint="a proxy or mirror may alter it: check HF_ENDPOINT, then the same command again",
        detail=f"received {found.hash.hexdigest()}\nthe hub lists {file.digest}",
    )


@contextmanager
def alone(job: Job, link: Link) -> Iterator[None]:
    """Hold the file's lock; said once if somebody else has it."""
    from filelock import Timeout
    from huggingface_hub.utils import WeakFileLock  # type: ignore[attr-defined]

    path = job.cached.locks / f"{job.file.digest}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    held: Any = None
    pause = 0.1
    while held is None:
        lock = WeakFileLock(path, timeout=pause)
        try:
            lock.__enter__()
            held = lock
        except Timeout:
            if pause < 1:
                link.tell(f"{job.file.path}: another program is fetching it")
            pause = 1.0
            if link.stop.is_set():
                raise Stopped from None
    try:
        yield
    finally:
        held.__exit__(None, None, None)
