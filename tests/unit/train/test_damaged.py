"""A file of a run that is not what was written: named, with the command that mends it."""

from __future__ import annotations

import pytest

from dflash_deploy.errors import UsageError
from dflash_deploy.train import answers, loop, prompts
from tests.unit.train import small
from tests.unit.train.test_loop import Run
from tests.unit.train.test_work import begun, work


@pytest.mark.parametrize("name", [prompts.FILE, answers.FILE])
@pytest.mark.parametrize("line", [b"rubbish\n", b'{"id": 0}\n', b'{"id": "\xff"}\n'])
def test_a_log(tmp_path, name, line):
    begun(tmp_path, small.saved_target(tmp_path / "target"))
    (tmp_path / name).write_bytes(line)
    with pytest.raises(UsageError, match="is damaged") as caught:
        work(tmp_path)
    assert caught.value.hint.startswith(f"rm {tmp_path / name}")


@pytest.mark.parametrize("left", [0, 1000])
def test_a_checkpoint_that_was_cut_off(tmp_path, left):
    Run(tmp_path, steps=1).train()
    file = tmp_path / loop.CHECKPOINT
    file.write_bytes(file.read_bytes()[:left])
    with pytest.raises(UsageError, match="is damaged: it has no end") as caught:
        Run(tmp_path, steps=2).train()
    assert caught.value.hint.startswith(f"rm {file}")
    file.unlink()
    assert Run(tmp_path, steps=2).train().step == 2
