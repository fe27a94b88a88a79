from __future__ import annotations

from pathlib import Path

import pytest

from dflash_deploy.cli._going_on import keeping
from dflash_deploy.errors import Interrupted, UsageError


@pytest.mark.parametrize("kept", [0, 2])
def test_what_finds_no_room_in_the_file_is_told(
    kept: int, capsys: pytest.CaptureFixture[str]
) -> None:
    told: list[str] = []
    with pytest.raises(UsageError), keeping(lambda: kept, Path("b.json"), lambda: told.append("")):
        raise UsageError("the results cannot be written to b.json: No space left on device")

    assert told == [""]
    assert ("2 runs are in b.json" in capsys.readouterr().err) is bool(kept)


def test_who_interrupts_is_told_what_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    told: list[str] = []
    with pytest.raises(Interrupted), keeping(lambda: 1, Path("b.json"), lambda: told.append("")):
        raise KeyboardInterrupt

    assert told == [""]
