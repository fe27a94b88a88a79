"""A disk that is full while a file of a run is written: what is there stays, and half a file goes."""

from __future__ import annotations

import errno
import resource
import stat
from contextlib import contextmanager

import pytest

from dflash_deploy.train import loop
from dflash_deploy.train.save import save
from tests.unit.train.test_loop import Run


@contextmanager
def room_for(size: int):
    """No file gets longer than that."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("size", [0, 100, 5000])
def test_a_checkpoint_outlives_the_one_that_could_not_be_written(tmp_path, size):
    state = Run(tmp_path, steps=1).train()
    before = (tmp_path / loop.CHECKPOINT).read_bytes()
    assert len(before) > 5000
    with room_for(size), pytest.raises(OSError, match="too large") as caught:
        loop.keep(tmp_path / loop.CHECKPOINT, state)
    assert caught.value.errno == errno.EFBIG
    assert (tmp_path / loop.CHECKPOINT).read_bytes() == before
    assert sorted(each.name for each in tmp_path.iterdir()) == [loop.CHECKPOINT, loop.CURVE]


@pytest.mark.parametrize("size", [0, 5000])
def test_a_draft_is_there_as_a_whole_or_not_at_all(tmp_path, size):
    run = Run(tmp_path / "run", steps=1)
    state = run.train()
    draft = tmp_path / "drafts" / "one"
    with room_for(size), pytest.raises(OSError, match="too large"):
        save(draft, run.config, state.tensors, state.scales)
    assert list(draft.parent.iterdir()) == []
    save(draft, run.config, state.tensors, state.scales)
    # a server may be another user
    modes = {stat.S_IMODE(each.stat().st_mode) for each in draft.iterdir()}
    assert len(modes) == 1, modes
