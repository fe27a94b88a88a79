"""The cache of engine environments: whole or absent, whatever happens while one is built."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib import import_module
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
engine_env = import_module("engine_env")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "dflash-contract"


def folders(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir() if path.is_dir())


def test_a_folder_is_built_once(cache) -> None:
    built = []
    for _ in range(2):
        made = engine_env._made("thing", built.append)
        assert made == cache / "thing"
    assert len(built) == 1
    assert built[0].parent == cache


def test_a_build_that_fails_leaves_nothing(cache) -> None:
    def fails(folder: Path) -> None:
        (folder / "half").write_text("")
        raise RuntimeError("no network")

    with pytest.raises(RuntimeError, match="no network"):
        engine_env._made("thing", fails)
    assert folders(cache) == []


def test_a_killed_build_is_swept_up_by_the_next(cache) -> None:
    script = (
        f"import sys, os, signal; sys.path.insert(0, {str(Path(engine_env.__file__).parent)!r})\n"
        "import engine_env\n"
        "engine_env._made('thing', lambda folder: os.kill(os.getpid(), signal.SIGKILL))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], check=False)
    assert done.returncode < 0
    (left,) = folders(cache)
    assert left.startswith("thing.part-")
    engine_env._made("thing", lambda folder: (folder / "whole").write_text(""))
    assert folders(cache) == ["thing"]


def test_names_follow_what_they_were_made_from() -> None:
    name = engine_env._name("environment", "torch==2.13.0", "3.11")
    assert name == engine_env._name("environment", "torch==2.13.0", "3.11")
    assert name != engine_env._name("environment", "torch==2.13.0", "3.12")
    assert name != engine_env._name("environment", "torch==2.13.03.11", "")


def test_an_engine_nobody_knows() -> None:
    with pytest.raises(ValueError, match="not one of vllm, sglang"):
        engine_env.environment("trt", "1.0")


def test_a_failed_command_says_its_last_words() -> None:
    with pytest.raises(RuntimeError, match=r"(?s)ended with 3:\nof pip"):
        engine_env._run(
            sys.executable, "-c", "import sys; print('of pip', file=sys.stderr); sys.exit(3)"
        )


def test_an_environment_has_the_sources_in_front_and_no_libraries(cache, monkeypatch) -> None:
    def pip(*argv: str) -> None:
        if "download" in argv:
            wheel = Path(argv[argv.index("--dest") + 1]) / "vllm-9.0-py3-none-any.whl"
            with zipfile.ZipFile(wheel, "w") as archive:
                for name in ("vllm/a.py", "vllm/_C.abi3.so", "vllm/vllm-rs", "vllm/x.h", "vllm/b.json",
                             "vllm-9.0.dist-info/METADATA"):  # fmt: skip
                    archive.writestr(name, "")

    monkeypatch.setattr(engine_env, "_run", pip)
    made = engine_env.environment("vllm", "9.0")
    unpacked = {path.relative_to(made.sources).as_posix() for path in made.sources.rglob("*.*")}
    assert unpacked == {"vllm/a.py", "vllm/b.json", "vllm-9.0.dist-info"}
    assert made.env["PYTHONPATH"] == str(made.sources)
    assert made.env["VLLM_TARGET_DEVICE"] == "cpu"
    assert made.python.parts[-2:] == ("bin", "python")
    assert "VLLM_TARGET_DEVICE" not in engine_env.environment("sglang", "9.0").env


def test_every_pin_is_exact_and_stands_once() -> None:
    names = [pin.partition("==")[0].lower() for pin in engine_env.pins()]
    assert all("==" in pin for pin in engine_env.pins())
    assert names == sorted(set(names))
