"""A file that a user named, which may be anything: read as far as it is of use, and no further."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def start_of(path: Path, most: int) -> bytes:
    """Its first `most` bytes. Raises OSError, of a pipe too that nobody writes to.

    A pipe with a writer, as of `<(zcat old.json.gz)`, is read to its end.
    """
    with open(path, "rb", opener=_at_once) as stream:
        os.set_blocking(stream.fileno(), True)
        data = stream.read(most)
        if not data and stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode):
            raise OSError(0, "nobody writes to this pipe")
    return data


def _at_once(path: str, flags: int) -> int:
    """Without a wait for the first one who writes to a pipe."""
    return os.open(path, flags | os.O_NONBLOCK)
