import logging
import subprocess
import sys

import pytest

from dflash_deploy.server.console import say


def test_a_phase_line_is_out_at_once(capsys):
    say("loading target x")
    assert capsys.readouterr().err == "loading target x\n"


@pytest.mark.parametrize(
    ("level", "ours", "theirs"),
    [("info", logging.INFO, logging.WARNING), ("error", logging.ERROR, logging.WARNING)],
)
def test_the_level_is_ours_and_libraries_only_warn(level, ours, theirs):
    code = (
        "import logging; from dflash_deploy.server.console import set_up_logging;"
        f"set_up_logging({level!r});"
        "print(*(logging.getLogger(n).getEffectiveLevel() for n in ('dflash_deploy.server.run', 'torch')))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == [str(ours), str(theirs)]
