"""Whatever goes wrong, nothing is left that looks whole, and the next install succeeds."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from dflash_deploy.envs import places
from dflash_deploy.envs.install import install, remove
from dflash_deploy.errors import DownloadError, EngineError
from dflash_deploy.hub import disk


def left() -> list[str]:
    return sorted(path.name for path in places.root().iterdir() if path.name != ".lock")


def test_an_install_is_made_marked_and_found_again(this, how, said, fake_uv: Path) -> None:
    made, new = install(this, how)

    assert new
    assert made.state == "ready"
    assert made.path == places.root() / "vllm-0.33.0"
    assert made.marker
    assert (made.marker.version, made.marker.packages, made.marker.uv) == ("0.33.0", 2, "0.13.9")
    assert made.marker.size > 0
    assert os.access(made.executable, os.X_OK)
    assert (made.path / "pylock.toml").exists()
    assert said.steps == [(0, 800_000_000), (500_000_000, 800_000_000), (800_000_000, 800_000_000),
                          (800_000_000, 800_000_000)]  # fmt: skip
    calls = fake_uv.read_text()

    again, new = install(this, how)
    assert (again, new) == (made, False)
    assert fake_uv.read_text() == calls  # uv was not asked again


@pytest.mark.parametrize(
    ("fault", "error", "says"),
    [
        ("venv:no-python", DownloadError, "there is no Python that it runs on"),
        ("venv:die", DownloadError, "killed by signal 9"),
        ("compile:no-network", DownloadError, "cannot be reached"),
        ("compile:no-release", DownloadError, "does not have it"),
        ("compile:die", DownloadError, "killed by signal 9"),
        ("install:no-network", DownloadError, "cannot be reached"),
        ("install:disk-full", DownloadError, "the disk is full"),
        ("install:odd", DownloadError, "uv ended with 2: something that nobody foresaw"),
        ("install:die", DownloadError, "killed by signal 9"),
        ("install:broken", EngineError, r"does not run; .*libcudart\.so\.13"),
        ("install:other-release", EngineError, r"gave vllm 0\.30\.0 for 0\.33\.0"),
        ("install:other-flags", EngineError, "does not know --speculative-config"),
    ],
)
def test_a_failed_install_leaves_nothing_behind(
    this, how, monkeypatch: pytest.MonkeyPatch, fault, error, says
) -> None:
    monkeypatch.setenv("FAKE_UV", fault)
    with pytest.raises(error, match=says) as caught:
        install(this, how)
    assert caught.value.hint
    assert "secret" not in f"{caught.value.message}{caught.value.detail}"
    assert left() == []

    monkeypatch.delenv("FAKE_UV")
    assert install(this, how)[1]


def test_a_disk_too_small_is_known_before_the_download(
    this, how, fake_uv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "free", lambda _: 2 << 30)
    with pytest.raises(DownloadError, match=r"takes about 1\.8 GiB, and .* has 2\.0 GiB free"):
        install(this, how)
    assert left() == []
    assert "pip install" not in fake_uv.read_text()


def test_constraints_reach_the_resolver(engines, how) -> None:
    from dflash_deploy.envs import needs

    made, _ = install(needs.wanted("vllm==0.26.0", engines), how)
    assert (made.path / "constraints.txt").read_text() == "transformers<5.15\n"


def test_a_folder_that_cannot_be_written_is_one_line(this, how, monkeypatch, tmp_path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    with pytest.raises(EngineError, match="cannot be written: Not a directory"):
        install(this, how)


def test_a_broken_environment_is_made_anew(this, how, said) -> None:
    made, _ = install(this, how)
    (made.path / "bin" / "python").unlink()
    assert places.read(made.path).state == "broken"

    again, new = install(this, how)
    assert new
    assert again.state == "ready"
    assert any("is broken" in line for line in said)


ONE = """
import sys
from dflash_deploy.envs import needs, uv
from dflash_deploy.envs.install import Installing, install
from dflash_deploy.registry import load

this = needs.wanted("vllm==0.33.0", load(user=False).engines)
say = lambda line: print(line, flush=True)
print("new" if install(this, Installing(uv.find(), say))[1] else "already", flush=True)
"""


def another(**env: str) -> subprocess.Popen:
    root = Path(__file__).resolve().parents[3]
    return subprocess.Popen(
        [sys.executable, "-c", ONE], env=os.environ | {"PYTHONPATH": str(root)} | env,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def wait_for(pid_file: Path) -> int:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        if pid_file.exists() and (text := pid_file.read_text()):
            return int(text)
        time.sleep(0.02)
    raise AssertionError("uv never came so far")


def gone(pid: int) -> bool:
    until = time.monotonic() + 15
    while time.monotonic() < until:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("how_it_ends", [signal.SIGINT, signal.SIGKILL])
def test_one_that_is_stopped_takes_uv_with_it(this, how, tmp_path, how_it_ends) -> None:
    pid_file = tmp_path / "pid"
    process = another(FAKE_UV="install:hang", FAKE_UV_PID=str(pid_file))
    uv_pid = wait_for(pid_file)
    assert places.every()[0].state == "installing"
    process.send_signal(how_it_ends)
    process.communicate(timeout=30)
    assert gone(uv_pid)

    if how_it_ends == signal.SIGINT:
        assert left() == []
    else:
        assert [each.state for each in places.every()] == ["unfinished"]
    assert install(this, how)[1]
    assert [each.state for each in places.every()] == ["ready"]


def test_the_next_install_clears_what_another_release_left(this, how, said) -> None:
    litter = places.folder("sglang", "0.5.19")
    (litter / "lib").mkdir(parents=True)
    install(this, how)
    assert left() == ["vllm-0.33.0"]
    assert any("did not end" in line for line in said)


def test_two_at_once_make_one(fake_uv: Path) -> None:
    pair = [another(), another()]
    lines = [process.communicate(timeout=60)[0].split("\n") for process in pair]
    assert sorted(said[-2] for said in lines) == ["already", "new"]
    assert fake_uv.read_text().count("pip install") == 1


def test_remove_takes_it_away_but_not_from_under_a_server(this, how) -> None:
    made, _ = install(this, how)
    server = subprocess.Popen(
        [made.path / "bin" / "python", "-c", "import time; print(1, flush=True); time.sleep(60)"],
        stdout=subprocess.PIPE,
    )
    try:
        assert server.stdout
        server.stdout.readline()
        with pytest.raises(EngineError, match=f"in use by process {server.pid}"):
            remove(made, print)
        assert places.read(made.path).state == "ready"
    finally:
        server.kill()
        server.wait()
    remove(made, print)
    assert left() == []


def test_a_removal_that_stops_halfway_leaves_nothing_that_looks_whole(
    this, how, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, _ = install(this, how)

    def stopped(_path: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("shutil.rmtree", stopped)
        with pytest.raises(KeyboardInterrupt):
            remove(made, print)
    assert [each.state for each in places.every()] == ["unfinished"]


def test_litter_that_cannot_be_removed_is_one_line(
    this, how, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(_path: Path) -> None:
        raise OSError(16, "Device or resource busy")

    places.folder("vllm", "0.26.0").mkdir(parents=True)
    monkeypatch.setattr("shutil.rmtree", busy)
    with pytest.raises(EngineError, match="cannot be removed: Device or resource busy"):
        install(this, how)
