from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from dflash_deploy.launch.journal import Journal, Reader, follow, last_lines, last_of, part


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "server.log"


def test_a_full_part_moves_on_and_the_oldest_goes(path: Path) -> None:
    journal = Journal(path, largest=10, kept=3)

    for word in (b"one-----", b"two-----", b"three---", b"four----"):
        journal.write(word)

    assert [part(path, n).read_bytes() for n in range(3)] == [b"four----", b"three---", b"two-----"]
    assert not part(path, 3).exists()


def test_a_chunk_larger_than_a_part_is_not_lost(path: Path) -> None:
    journal = Journal(path, largest=4)

    journal.write(b"0123456789")
    journal.write(b"next")

    assert part(path, 1).read_bytes() == b"0123456789"
    assert path.read_bytes() == b"next"


def test_a_deleted_folder_is_made_again(path: Path) -> None:
    journal = Journal(path)
    journal.write(b"before")
    shutil.rmtree(path.parent)

    journal.write(b"after")

    assert path.read_bytes() == b"after"


def test_a_full_disk_costs_lines_and_nothing_else(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(path)
    write = os.write

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    assert journal.write(b"lost") == 4
    monkeypatch.setattr(os, "write", write)
    journal.write(b"kept")

    assert path.read_bytes() == b"kept"


def test_others_may_not_read_it(path: Path) -> None:
    Journal(path).write(b"x")

    assert path.stat().st_mode & 0o777 == 0o600


def test_following_goes_from_part_to_part_and_ends_with_the_server(path: Path) -> None:
    journal = Journal(path, largest=30)
    journal.write(b"old part, written before\n")
    journal.write(b"new part\n")
    left = iter(range(40))

    def goes_on() -> bool:
        number = next(left, None)
        if number is not None:
            journal.write(b"line %d\n" % number)
        return number is not None

    read = b"".join(follow(path, goes_on, pause=0))

    assert read == b"old part, written before\nnew part\n" + b"".join(
        b"line %d\n" % number for number in range(40)
    )


def test_without_a_server_the_whole_log_is_read_once(path: Path) -> None:
    journal = Journal(path, largest=10)
    for word in (b"one-----", b"two-----"):
        journal.write(word)

    assert b"".join(follow(path, lambda: False)) == b"one-----two-----"
    assert list(follow(path.with_name("none"), lambda: False)) == []


@pytest.mark.parametrize("size", [1, 5, 7, 100])
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_the_last_lines_of_pieces(size: int, end: bytes) -> None:
    text = b"first\nsecond\n\nlast" + end
    pieces = [text[at : at + size] for at in range(0, len(text), size)]

    for count in range(6):
        whole = text.splitlines(keepends=True)
        assert b"".join(last_of(pieces, count)) == b"".join(whole[max(0, 4 - count) :])


def test_following_may_begin_at_the_last_lines(path: Path) -> None:
    journal = Journal(path, largest=10)
    for word in (b"one-----\n", b"two\n", b"three\n"):
        journal.write(word)
    later = iter([True, False])

    def goes_on() -> bool:
        if more := next(later):
            journal.write(b"four\n")
        return more

    assert b"".join(follow(path, goes_on, last=2, pause=0)) == b"two\nthree\nfour\n"


def test_a_reader_waits_for_a_log_that_is_not_there_yet(path: Path) -> None:
    reader = Reader(path)
    assert reader.read() == b""

    Journal(path).write(b"first")

    assert reader.read() == b"first"
    assert reader.read() == b""
    reader.close()


def test_the_last_lines_take_a_progress_bar_apart(path: Path) -> None:
    Journal(path).write(b"a\n10%\r20%\n")

    assert last_lines(path) == ["a", "10%", "20%"]
    assert last_lines(path.with_name("none")) == []


@pytest.fixture(autouse=True)
def _umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)
