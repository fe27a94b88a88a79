"""The keeper's own word of its server, where it cannot be written down at once."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from dflash_deploy.launch import state
from dflash_deploy.launch.detached import record_of
from dflash_deploy.launch.keeper import Keeper, Order
from tests.fakes.plans import plan


@pytest.fixture
def keeper() -> Keeper:
    made = plan("vllm", port=8000)
    record = record_of(made, "qwen3-4b-8000", log=None)
    state.write(record)
    return Keeper(Order(made, "/nonexistent", record, grace=1.0))


def test_what_a_full_disk_did_not_take_is_written_when_there_is_room(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as disk:
        disk.setattr(os, "fsync", full)
        keeper._note(ready=True, speculation="fine")
        keeper.mend()
    before = state.read(state.file_of("qwen3-4b-8000"))
    assert before
    assert not before.ready

    keeper.mend()

    after = state.read(state.file_of("qwen3-4b-8000"))
    assert after
    assert (after.ready, after.speculation) == (True, "fine")


def test_a_file_that_says_all_is_left_alone(keeper: Keeper) -> None:
    written: Path = state.file_of("qwen3-4b-8000")
    before = written.stat().st_mtime_ns
    keeper.mend()
    assert written.stat().st_mtime_ns == before
