"""What a detached server leaves in the state folder: its record, its log, and no key."""

from __future__ import annotations

import shutil

import psutil

from tests.integration.test_cli_detach import machine as machine  # noqa: PLC0414 - a fixture
from tests.integration.test_cli_detach import until


def test_a_deleted_state_folder_comes_back(machine):
    machine.serve()

    shutil.rmtree(machine.state)

    assert until(machine.file.exists)
    assert machine.ps()[0]["state"] == "ready"
    assert machine.dflash.run("stop", machine.name).code == 0
    assert machine.nothing_left()


def test_a_state_folder_that_cannot_be_written_is_one_line_and_no_server(machine, tmp_path):
    (tmp_path / "file").touch()
    machine.dflash.env["XDG_STATE_HOME"] = str(tmp_path / "file")

    ended = machine.serve()

    assert ended.code == 7
    assert "cannot be written: Not a directory" in ended.err
    assert "Traceback" not in ended.err
    assert machine.living() == []


def test_a_torn_file_is_named_and_in_nobodys_way(machine):
    machine.file.parent.mkdir(parents=True)
    machine.file.write_text('{"schema": "dflash.')
    folder = machine.file.with_name("x.json")
    folder.mkdir()

    shown = machine.dflash.run("ps")

    assert shown.code == 0
    assert f"rm {machine.file}" in shown.err
    assert f"rm -r {folder}" in shown.err
    assert machine.serve().code == 0
    assert machine.dflash.run("stop", "--all").code == 0


def test_logs_are_followed_until_the_server_ends(machine):
    machine.serve()
    with machine.dflash.start("logs", "-f", machine.name) as following:
        assert "INFO" in following.stdout.readline()
        machine.dflash.run("stop", machine.name)
        out, err = following.communicate(timeout=10)

    assert (following.returncode, err) == (0, "")
    assert "Shutting down" in out


def test_the_last_lines_of_a_log(machine):
    machine.serve()
    machine.dflash.run("stop", machine.name)
    whole = machine.dflash.run("logs", machine.name).out.splitlines()

    assert machine.dflash.run("logs", "-n", "3", machine.name).out.splitlines() == whole[-3:]
    assert machine.dflash.run("logs", "-n", "0", machine.name).out == ""


def test_a_key_is_in_no_file_and_no_command_line(machine):
    started = machine.dflash.run(
        *machine.words(engine="sglang"),
        env={**machine.env({}), "DFLASH_API_KEY": "open-sesame-42"},
    )
    assert started.code == 0, started.err
    keeper = psutil.Process(machine.record()["pid"])
    tree = [keeper, *keeper.children(recursive=True)]
    lines = [" ".join(process.cmdline()) for process in tree]
    files = [path.read_text() for path in machine.state.rglob("*") if path.is_file()]
    assert machine.dflash.run("stop", machine.name).code == 0

    assert "***" in machine.log.read_text()
    assert not any("sesame" in text for text in (*lines, *files, started.err))
