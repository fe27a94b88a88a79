"""Files that may be anything: what is read of them, and that nobody waits."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from dflash_deploy.cli.explain import explain
from dflash_deploy.errors import RegistryError, UsageError
from dflash_deploy.measure import results
from dflash_deploy.measure.prompts import read_prompts
from dflash_deploy.named_file import start_of
from dflash_deploy.registry import read
from dflash_deploy.schema import Model


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def test_a_file_is_read_as_far_as_asked(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("abcdef")
    assert start_of(tmp_path / "file", 4) == b"abcd"


def test_a_pipe_that_somebody_writes_to_slowly_is_read_to_its_end() -> None:
    end, start = os.pipe()

    def write() -> None:
        with os.fdopen(start, "wb") as stream:
            stream.write(b"half")
            stream.flush()
            threading.Event().wait(0.1)
            stream.write(b" and half")

    writer = threading.Thread(target=write)
    writer.start()
    assert start_of(Path(f"/dev/fd/{end}"), 100) == b"half and half"
    writer.join()
    os.close(end)


@pytest.mark.parametrize(
    "reader",
    [
        results.read,
        lambda path: read_prompts(path, "own"),
        lambda path: read(path, Model),
        lambda path: explain(file=path),
    ],
)
@pytest.mark.timeout(5)
def test_nobody_waits_for_the_writer_of_a_pipe(
    pipe: Path, reader: Callable[[Path], object]
) -> None:
    with pytest.raises((UsageError, RegistryError), match="nobody writes to this pipe"):
        reader(pipe)
