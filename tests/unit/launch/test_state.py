from __future__ import annotations

import errno
import json
import os
import subprocess
from pathlib import Path

import msgspec
import pytest

from dflash_deploy.errors import LaunchError
from dflash_deploy.launch import state
from dflash_deploy.launch.detached import record_of
from tests.fakes.plans import plan


def record(name: str = "qwen3-4b-8000") -> state.Record:
    return record_of(plan("vllm", port=8000), name, log=None)


def test_what_is_written_is_read() -> None:
    state.write(record())

    assert state.every() == ([record_as_read()], [])
    state.remove(record_as_read())
    assert state.every() == ([], [])


def record_as_read() -> state.Record:
    found = state.read(state.file_of("qwen3-4b-8000"))
    assert found is not None
    return found


def test_a_file_that_cannot_be_whole_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    state.write(record())
    before = record_as_read()

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(LaunchError, match="cannot be written: No space left on device") as at:
        state.write(msgspec.structs.replace(before, restarts=9))

    assert at.value.hint is not None
    assert at.value.hint.startswith("df -h")
    assert record_as_read() == before
    assert [path.name for path in state.folder().iterdir()] == ["qwen3-4b-8000.json"]


def test_a_folder_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))

    with pytest.raises(LaunchError, match="cannot be written: Not a directory"), state.alone():
        pass
    assert state.every() == ([], [])


@pytest.mark.parametrize("text", [b"", b'{"schema": "dflash.ser', b"[]", b"\xff", b"{}"])
def test_a_torn_file_is_named(text: bytes) -> None:
    state.folder().mkdir(parents=True)
    path = state.file_of("x-1")
    path.write_bytes(text)

    assert state.every() == ([], [path])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("version", "latest"), ("since", "yesterday"), ("since", "2026-11-28T10:00:00"),
        ("pid", 0), ("pid", -1), ("pid", 1 << 40), ("served_names", []),
    ],
)  # fmt: skip
def test_one_that_says_what_cannot_be_is_named(field: str, value: object) -> None:
    state.write(record())
    path = state.file_of("qwen3-4b-8000")
    path.write_text(json.dumps(json.loads(path.read_text()) | {field: value}))

    assert state.every() == ([], [path])


def test_a_pipe_a_device_and_a_folder_are_no_records_and_nobody_waits_for_them() -> None:
    state.folder().mkdir(parents=True)
    pipe, device, folder = (state.file_of(name) for name in ("pipe", "zero", "folder"))
    os.mkfifo(pipe)
    device.symlink_to("/dev/zero")
    folder.mkdir()

    assert state.every() == ([], [folder, pipe, device])


def test_a_record_under_another_name_is_not_taken_for_its_server() -> None:
    state.write(record())
    state.file_of("qwen3-4b-8000").rename(state.file_of("other-1"))

    assert state.every() == ([], [state.file_of("other-1")])


def test_a_process_is_known_by_when_it_began() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        began = state.beginning(child.pid)

        assert began is not None
        assert began == state.beginning(child.pid)
        assert began != state.beginning(os.getpid())
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert state.beginning(child.pid) is None  # dead, and not yet collected


def test_a_later_server_of_that_name_is_not_forgotten() -> None:
    first, second = record(), record()
    state.write(second)

    state.remove(first)

    assert record_as_read().launch_id == second.launch_id


def test_nothing_secret_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVING_KEY", "open-sesame")
    state.write(record_of(plan("sglang", api_key_env="SERVING_KEY"), "a-1", log=None))

    assert b"open-sesame" not in state.file_of("a-1").read_bytes()
    assert state.file_of("a-1").stat().st_mode & 0o777 == 0o600
