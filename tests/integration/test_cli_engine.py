"""`dflash engine` with the real uv and a tiny engine from a local folder: no index, no network."""

from __future__ import annotations

import json
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest

from dflash_deploy.envs import uv
from tests.fakes import engine_wheel, install_fakes
from tests.fakes.uv import install_fake_uv


@pytest.fixture
def real(bare, tmp_path: Path):
    """A machine with the real uv, and a folder of wheels as its only index."""
    program = Path(uv.find().path)
    for version in ("0.26.0", "0.33.0"):
        engine_wheel.build(tmp_path / "wheels", "vllm", version)
    engine_wheel.build(tmp_path / "wheels", "sglang", "0.5.19", flag="--speculative-algorithm")
    engine_wheel.build(tmp_path / "wheels", "vllm", "0.30.0", broken=True)
    (tmp_path / "wheels" / "uv.toml").write_text(
        f'no-index = true\nfind-links = ["{tmp_path}/wheels"]\n'
    )
    bare.env |= {
        "PATH": f"{program.parent}:{Path(sys.executable).parent}:/usr/bin:/bin",
        "UV_CONFIG_FILE": str(tmp_path / "wheels" / "uv.toml"),
        "UV_CACHE_DIR": str(tmp_path / "cache"),
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_PYTHON": sys.executable,
        "COLUMNS": "80",
    }
    return bare


@pytest.fixture
def faked(bare, tmp_path: Path):
    install_fake_uv(tmp_path / "bin")
    bare.env["PATH"] = f"{tmp_path / 'bin'}:/usr/bin:/bin"
    return bare


def engines(cli) -> list[dict]:
    return json.loads(cli.run("engine", "list", "--json").out)["engines"]


def test_install_list_and_remove_with_the_real_uv(real, tmp_path):
    made = real.run("engine", "install", "vllm==0.26.0", "--json")
    assert made.code == 0, made.err
    assert "Traceback" not in made.err
    document = json.loads(made.out)
    assert document["installed"] is True
    folder = tmp_path / "data" / "dflash" / "engines" / "vllm-0.26.0"
    assert document["engine"]["path"] == str(folder)
    assert document["engine"]["size_bytes"] > 0
    assert (folder / "bin" / "vllm").read_text().startswith(f"#!{folder}/bin/python")
    assert "vllm" in (folder / "pylock.toml").read_text()

    assert real.run("engine", "install", "sglang==0.5.19").code == 0
    assert real.run("engine", "install", "vllm").code == 0
    assert json.loads(real.run("engine", "install", "vllm", "--json").out)["installed"] is False
    assert [(each["engine"], each["version"], each["state"]) for each in engines(real)] == [
        ("sglang", "0.5.19", "ready"), ("vllm", "0.26.0", "ready"), ("vllm", "0.33.0", "ready"),
    ]  # fmt: skip

    several = real.run("engine", "remove", "vllm")
    assert several.code == 5
    assert "dflash engine remove vllm==0.26.0" in several.err
    gone = real.run("engine", "remove", "vllm==0.26.0", "--json")
    assert json.loads(gone.out)["removed"]["version"] == "0.26.0"
    assert real.run("engine", "remove", "vllm").code == 0
    assert [each["engine"] for each in engines(real)] == ["sglang"]


def test_one_whose_parser_does_not_run_is_not_kept(real):
    ended = real.run("engine", "install", "vllm==0.30.0", "--json")
    assert ended.code == 5
    error = json.loads(ended.out)["error"]
    assert error["code"] == "engine"
    assert "libcudart.so.13" in error["message"]
    assert engines(real) == []


def test_a_release_that_the_index_has_not_is_one_line(real):
    ended = real.run("engine", "install", "vllm==0.31.0")
    assert ended.code == 6
    assert "cannot be resolved: the package index does not have it" in ended.err
    assert "Traceback" not in ended.err
    assert engines(real) == []


def test_no_network_is_one_line(real):
    del real.env["UV_CONFIG_FILE"]
    real.env |= {"UV_INDEX_URL": "http://127.0.0.1:9/simple", "UV_HTTP_RETRIES": "0"}
    ended = real.run("engine", "install", "vllm==0.26.0")
    assert ended.code == 6
    assert "cannot be reached" in ended.err
    assert engines(real) == []


def test_no_uv_is_one_line(bare):
    hidden = bare.start("engine", "install", "vllm", env={"PATH": "/usr/bin:/bin"})
    _, err = hidden.communicate(timeout=60)
    if hidden.returncode == 5:  # not where the uv of this package's own is used
        assert "uv, which installs engines, was not found" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("argv", "code", "says"),
    [
        (("install", "vllm==0.19.0"), 5, "dflash engine install vllm==0.33.0"),
        (("install", "sglang==9"), 5, "dflash engine install sglang==0.5.23"),
        (("install", "vllm>=0.3"), 2, "vllm==0.33.0, or vllm for the newest"),
        (("install", "transformers"), 2, "pip install 'dflash-deploy[local]'"),
        (("remove", "vllm==0.33.0"), 5, "dflash engine list"),
        (("list",), 0, "dflash engine install vllm"),
    ],
)
def test_what_cannot_be_done_says_what_can(bare, argv, code, says):
    ended = bare.run("engine", *argv)
    assert ended.code == code
    assert says in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(("how", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_install_leaves_nothing(faked, tmp_path, how, code):
    pid = tmp_path / "pid"
    process = faked.start(
        "engine", "install", "vllm", env={"FAKE_UV": "install:hang", "FAKE_UV_PID": str(pid)}
    )
    until = time.monotonic() + 30
    while not pid.exists() and time.monotonic() < until:
        time.sleep(0.02)
    assert [each["state"] for each in engines(faked)] == ["installing"]
    process.send_signal(how)
    _, err = process.communicate(timeout=30)
    assert process.returncode == code
    assert "Traceback" not in err
    assert engines(faked) == []


def test_the_table_fits_80_columns(faked, tmp_path):
    install_fakes(tmp_path / "bin", sglang="0.5.17")
    (tmp_path / "bin" / "vllm").unlink()
    faked.run("engine", "install", "vllm")
    listed = faked.run("engine", "list")
    lines = listed.out.splitlines()
    assert lines[0].split() == ["ENGINE", "VERSION", "SIZE", "STATE", "PATH"]
    assert lines[1].split()[:2] == ["vllm", "0.33.0"]
    assert "~/data/dflash/engines/vllm-0.33.0" in lines[1]
    assert "not ours, on PATH" in lines[2]
    assert max(map(len, lines)) <= 80


@pytest.fixture
def served(dflash, tmp_path: Path):
    """Fake engines on PATH (0.33.0), and two of our own: 0.22.1 and 0.30.0."""
    for version in ("0.22.1", "0.30.0"):
        folder = tmp_path / "data" / "dflash" / "engines" / f"vllm-{version}"
        install_fakes(folder / "bin", vllm=version)
        (folder / "bin" / "python").symlink_to(sys.executable)
        (folder / "dflash-engine.json").write_text(json.dumps({
            "engine": "vllm", "version": version, "executable": "vllm", "size": 1,
            "installed": "2026-01-01T00:00:00+00:00",
        }))  # fmt: skip
    return dflash


def chosen(cli, port: int, tmp_path: Path, *options: str) -> str:
    """Which program serve started, by the note it gives before that; it is ended at once."""
    ended = cli.run(
        "serve", "gpt-oss-20b", "--engine", "vllm", "--port", str(port), *options,
        env={"FAKE_ENGINE_CRASH_AFTER": "0.1", "FAKE_ENGINE_NEVER_READY": "1"},
    )  # fmt: skip
    return ended.err


def test_serve_takes_the_newest_installed_one_before_path(served, port, tmp_path):
    said = chosen(served, port, tmp_path)
    assert f"vllm 0.30.0 of {tmp_path}/data/dflash/engines/vllm-0.30.0" in said
    assert "vllm 0.30.0, blocks" in said


def test_serve_takes_path_where_no_installed_one_is_new_enough(served, port, tmp_path):
    shutil.rmtree(tmp_path / "data" / "dflash" / "engines" / "vllm-0.30.0")
    assert "vllm 0.33.0, blocks" in chosen(served, port, tmp_path)


def test_serve_says_what_is_needed_where_all_are_too_old(served, engines, port, tmp_path):
    shutil.rmtree(tmp_path / "data" / "dflash" / "engines" / "vllm-0.30.0")
    (engines / "vllm").unlink()
    said = chosen(served, port, tmp_path)
    assert "vllm 0.22.1 is too old for gpt-oss-20b, which needs" in said
    assert "dflash engine install vllm==0.33.0" in said


@pytest.mark.parametrize(
    ("version", "says"),
    [
        ("0.30.0", "vllm 0.30.0, blocks"),
        ("0.33.0", "vllm 0.33.0, blocks"),  # the one on PATH
        ("0.22.1", "vllm 0.22.1 is too old"),
        ("0.28.0", "dflash engine install vllm==0.28.0"),
        ("0.28.9", "dflash engine install vllm==0.33.0"),
    ],
)
def test_serve_runs_exactly_the_release_asked_for(served, port, tmp_path, version, says):
    assert says in chosen(served, port, tmp_path, "--engine-version", version)


def test_an_environment_by_option_wins_over_the_installed(served, port, tmp_path):
    install_fakes(tmp_path / "other" / "bin", vllm="0.31.0")
    said = chosen(served, port, tmp_path, "--engine-env", str(tmp_path / "other"))
    assert "vllm 0.31.0, blocks" in said
