"""What a unit says besides its command."""

from __future__ import annotations

import subprocess

import pytest

from dflash_deploy.service import start_seconds
from tests.unit.render.exported import odd, planned, systemd_lines, systemd_words, text, with_key

PLAN = planned("gpt-oss-20b", "vllm", "H100")


def test_the_secrets_file_is_needed_once_there_is_a_key():
    file = "%E/dflash/dflash-gpt-oss-20b.env"
    assert systemd_lines(text("systemd", PLAN), "EnvironmentFile") == [f"-{file}"]
    assert systemd_lines(text("systemd", with_key(PLAN)), "EnvironmentFile") == [file]


@pytest.mark.parametrize(("mode", "starts"), [(0o600, True), (0o644, False), (None, True)])
def test_secrets_that_others_can_read_stop_the_start(mode, starts, tmp_path):
    file = tmp_path / "a b" / "dflash" / "dflash-gpt-oss-20b.env"
    if mode is not None:
        file.parent.mkdir(parents=True)
        file.touch()
        file.chmod(mode)
    (line,) = systemd_lines(text("systemd", PLAN), "ExecStartPre")
    words = systemd_words(line.replace("%E", str(tmp_path / "a b")))
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) is starts
    said = "" if starts else f"others can read the secrets: chmod 600 {file}\n"
    assert done.stderr == said


def test_a_start_ends_when_the_server_answers_and_has_the_time_for_it():
    unit = text("systemd", PLAN)
    (waiting,) = systemd_lines(unit, "ExecStartPost")
    assert PLAN.base_url + PLAN.health_path in waiting
    assert systemd_words(waiting)[2].count('"$MAINPID"') == 1
    assert systemd_lines(unit, "TimeoutStartSec") == [str(start_seconds(PLAN))]


def test_variables_keep_their_dollar_signs_single():
    plan = odd()
    written = systemd_lines(text("systemd", plan), "Environment")
    assert plan.env["ODD"].count("$") == written[-1].count("$")
