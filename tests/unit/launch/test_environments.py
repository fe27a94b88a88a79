from __future__ import annotations

import sys
import venv
from pathlib import Path

import pytest

from dflash_deploy.engine_schema import Engine, Release
from dflash_deploy.errors import EngineError
from dflash_deploy.launch import environments
from dflash_deploy.launch.environments import find_engine, from_metadata, parse_version
from dflash_deploy.schema import EngineName
from tests.fakes import install_fakes


def engine(name: str) -> Engine:
    return Engine(
        distribution=name,
        executable=name,
        first_release="0.1.0",
        port=8000,
        health_path="/health",
        releases=[Release(version="0.20.0"), Release(version="0.33.0")],
        spellings=[],
    )


@pytest.fixture
def bin_dir(tmp_path: Path) -> Path:
    install_fakes(tmp_path / "bin", vllm="0.26.0", sglang="0.5.19")
    return tmp_path / "bin"


@pytest.mark.parametrize(("name", "version"), [("vllm", "0.26.0"), ("sglang", "0.5.19")])
def test_the_program_is_asked_where_there_is_no_metadata(
    bin_dir: Path, name: EngineName, version: str
) -> None:
    found = find_engine(name, engine(name), path=str(bin_dir))

    assert found.executable == bin_dir / name
    assert found.version == version


def test_the_environment_folder_goes_before_path(bin_dir: Path, tmp_path: Path) -> None:
    install_fakes(tmp_path / "env" / "bin", vllm="0.33.0")

    found = find_engine("vllm", engine("vllm"), env_dir=tmp_path / "env", path=str(bin_dir))

    assert found.executable == tmp_path / "env" / "bin" / "vllm"
    assert found.version == "0.33.0"


def test_metadata_of_the_scripts_interpreter_comes_first(tmp_path: Path) -> None:
    venv.create(tmp_path / "env", symlinks=True)
    (packages,) = (tmp_path / "env" / "lib").glob("python*/site-packages")
    (packages / "vllm-0.30.0.dist-info").mkdir()
    (packages / "vllm-0.30.0.dist-info" / "METADATA").write_text("Name: vllm\nVersion: 0.30.0\n")
    script = tmp_path / "env" / "bin" / "vllm"
    script.write_text(f"#!{tmp_path}/env/bin/python\nraise SystemExit('imported everything')\n")
    script.chmod(0o755)

    assert from_metadata(script, "vllm") == "0.30.0"
    assert find_engine("vllm", engine("vllm"), env_dir=tmp_path / "env").version == "0.30.0"


def test_a_compiled_program_has_no_metadata(tmp_path: Path) -> None:
    assert from_metadata(Path("/bin/true"), "vllm") is None


def test_missing_says_how_to_install_the_newest_release(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="vLLM was not found") as caught:
        find_engine("vllm", engine("vllm"), env_dir=tmp_path, path=str(tmp_path))

    assert caught.value.hint == "dflash engine install vllm==0.33.0"
    assert caught.value.exit_code == 5


def test_broken_gives_the_last_line_of_its_trace(
    bin_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_ENGINE_BROKEN_VERSION", "1")

    with pytest.raises(EngineError, match=r"broken: ImportError: libcudart\.so\.13"):
        find_engine("vllm", engine("vllm"), path=str(bin_dir))


def test_a_program_that_cannot_run_is_an_error_and_not_a_crash(tmp_path: Path) -> None:
    script = tmp_path / "vllm"
    script.write_text("#!/nowhere/python\n")
    script.chmod(0o755)

    with pytest.raises(EngineError, match="cannot be run"):
        find_engine("vllm", engine("vllm"), path=str(tmp_path))


def test_a_silent_program_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "VERSION_TIMEOUT", 0.2)
    script = tmp_path / "vllm"
    script.write_text("#!/bin/sh\nexec sleep 5\n")
    script.chmod(0o755)

    with pytest.raises(EngineError, match="did not say its version"):
        find_engine("vllm", engine("vllm"), path=str(tmp_path))


def test_the_embedded_engine_is_this_interpreter() -> None:
    found = find_engine("transformers", engine("dflash"))

    assert found.executable == Path(sys.executable)


def test_the_embedded_engine_names_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "LOCAL_MODULES", ("json", "no_such_module"))

    with pytest.raises(EngineError, match="needs no_such_module") as caught:
        find_engine("transformers", engine("dflash"))

    assert caught.value.hint == "pip install 'dflash-deploy[local]'"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("0.33.0\n", "0.33.0"),
        ("sglang version: 0.5.12.post1\ngit revision: abc1234\n", "0.5.12.post1"),
        ("INFO 11-27 10:00:00 nothing\n", None),
        ("0.34.0rc1.dev12+g1a2b3c4\n", "0.34.0rc1.dev12+g1a2b3c4"),
        ("", None),
    ],
)
def test_versions_are_read_as_the_engines_print_them(text: str, version: str | None) -> None:
    assert parse_version(text) == version
