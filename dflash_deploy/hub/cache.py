"""The hub client's cache, as every engine reads it: blobs by digest, snapshots that point at them.

A snapshot appears when all of its blobs are there and proven, `config.json` last: an engine opens
that first, so that what was cut short never looks like a model.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from dflash_deploy.hub.listing import COMMIT, File

LAST = "config.json"
PARTIAL = ".incomplete"
"""The ending earlier releases of the client resumed from as well."""


def root() -> Path:
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


class Cached:
    """One repository's folder in the cache."""

    def __init__(self, cache: Path, repository: str) -> None:
        name = f"models--{repository.replace('/', '--')}"
        self.cache = cache
        self.folder = cache / name
        self.locks = cache / ".locks" / name

    def snapshot(self, commit: str) -> Path:
        return self.folder / "snapshots" / commit

    def blob(self, file: File) -> Path:
        return self.folder / "blobs" / file.digest

    def partial(self, file: File) -> Path:
        return self.folder / "blobs" / (file.digest + PARTIAL)

    def commit(self, revision: str | None) -> str | None:
        """The commit that a revision stood for when it was last asked."""
        if revision and COMMIT.fullmatch(revision):
            return revision
        with suppress(OSError, UnicodeDecodeError):
            found = (self.folder / "refs" / (revision or "main")).read_text().strip()
            return found if COMMIT.fullmatch(found) else None
        return None

    def find(self, commit: str, file: File) -> Path | None:
        """Where the whole file is already, by its size; None: it is not."""
        for path in (self.blob(file), self.snapshot(commit) / file.path):
            if size_of(path) == file.size:
                return path
        return None

    def begun(self, file: File) -> int:
        """Bytes of it that an earlier run left to go on from."""
        return min(size_of(self.partial(file)) or 0, file.size)

    def publish(self, commit: str, files: Iterable[File], revision: str | None) -> Path:
        """Point at the blobs from the commit's snapshot, and from the revision at the commit."""
        folder = self.snapshot(commit)
        for file in sorted(files, key=lambda file: file.path == LAST):
            self._point(folder / file.path, self.blob(file), file)
        if not (revision and COMMIT.fullmatch(revision)):
            ref = self.folder / "refs" / (revision or "main")
            ref.parent.mkdir(parents=True, exist_ok=True)
            _replace(ref, lambda path: path.write_text(commit))
        return folder

    def _point(self, pointer: Path, blob: Path, file: File) -> None:
        if size_of(pointer) == file.size:
            return
        pointer.parent.mkdir(parents=True, exist_ok=True)
        target = os.path.relpath(blob, pointer.parent)
        try:
            _replace(pointer, lambda path: path.symlink_to(target))
        except (OSError, NotImplementedError):  # a file system without symbolic links
            blob.replace(pointer)


def size_of(path: Path) -> int | None:
    with suppress(OSError):
        return path.stat().st_size if path.is_file() else None
    return None


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    """Written beside it first: whoever reads meanwhile sees the old one or the new one."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        write(beside)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
