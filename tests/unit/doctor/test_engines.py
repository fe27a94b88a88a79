"""Which installations can serve DFlash here, and what is in the way of the others."""

from __future__ import annotations

import sys

import msgspec
import pytest

from dflash_deploy.doctor import engines
from dflash_deploy.doctor.engines import Found
from dflash_deploy.doctor.gather import Answer
from dflash_deploy.envs.places import MARKER, Marker
from dflash_deploy.hardware import Card, Hardware
from dflash_deploy.registry import load
from tests.fakes import install_fakes

KNOWN = load(user=False).engines
MISSING = Found("vllm", None, None, "vLLM was not found", "uv pip install vllm")
CARDS = Hardware((Card("H100", "hopper", 80),), "found", cuda="13.0")
OLD_DRIVER = Hardware((Card("H100", "hopper", 80),), "found", cuda="12.2")


def vllm(version: str) -> Found:
    return Found("vllm", "/env/bin/vllm", version)


def judged(found: Found, hardware: Hardware | None = CARDS, *, cards=True, ready=("vllm",)):
    answers = {found.engine: Answer((found,))}
    (only,) = engines.findings(answers, KNOWN, hardware, cards=cards, ready=ready)
    return only.state, only.text, only.remedy


def test_a_release_that_is_known_is_fine():
    assert judged(vllm("0.33.0")) == ("ok", "vLLM 0.33.0 at /env/bin/vllm", None)


def test_a_release_from_before_dflash_cannot_serve():
    state, text, remedy = judged(vllm("0.19.0"), ready=())
    assert (state, remedy) == ("problem", "dflash engine install vllm==0.33.0")
    assert text.endswith("DFlash came with 0.20.0")
    assert not engines.serves(vllm("0.19.0"), KNOWN["vllm"], CARDS)


def test_a_release_nobody_knows_yet_may():
    assert judged(vllm("9.0.0"))[0] == "note"
    assert engines.serves(vllm("9.0.0"), KNOWN["vllm"], CARDS)
    assert judged(vllm("not a version"))[0] == "note"


def test_binaries_newer_than_the_driver_are_told_apart_by_their_tag():
    state, text, remedy = judged(vllm("0.33.0"), OLD_DRIVER, ready=())
    assert (state, remedy) == (
        "problem",
        "install an NVIDIA driver that runs CUDA 13.0, 580.65.06 or later",
    )
    assert text.endswith("it is built for CUDA 13.0, and the driver runs 12.2")
    assert judged(vllm("0.33.0+cu129"), OLD_DRIVER)[0] == "ok"


def test_what_is_missing_blocks_only_where_nothing_else_serves_the_cards():
    assert judged(MISSING, ready=("transformers",))[0] == "problem"
    assert judged(MISSING, ready=("docker", "transformers"))[0] == "note"
    without = judged(MISSING, Hardware(), cards=False, ready=("transformers",))
    assert without == ("ok", "no vLLM here, and no GPU that it could use", None)


def test_one_missing_engine_is_problem_enough():
    answers = {
        "vllm": Answer((MISSING,)), "sglang": Answer((Found("sglang", None, None, "none", "x"),)),
        "transformers": Answer((Found("transformers", None, None, "needs torch", "y"),)),
    }  # fmt: skip
    found = list(engines.findings(answers, KNOWN, CARDS, cards=True, ready=()))
    assert [each.state for each in found] == ["problem", "note", "note"]


def test_a_laptop_without_the_embedded_engine_has_none():
    found = Found("transformers", None, None, "the embedded engine needs torch", "pip install")
    assert judged(found, Hardware(), cards=False, ready=())[0] == "problem"


def test_an_engine_that_does_not_answer_hides_nothing():
    answers = {"vllm": Answer(why="no answer within 5 s"), "sglang": Answer((MISSING,))}
    found = list(engines.findings(answers, KNOWN, CARDS, cards=True, ready=("docker",)))
    assert [each.text for each in found] == ["vLLM: no answer within 5 s", "vLLM was not found"]


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    return tmp_path / "data" / "dflash" / "engines"


def test_isolated_environments_are_found_beside_the_one_on_path(data, tmp_path):
    install_fakes(tmp_path / "bin", vllm="0.30.0")
    isolated = data / "vllm-0.33.0" / "bin"
    install_fakes(isolated, vllm="0.33.0")
    (isolated / "python").symlink_to(sys.executable)
    marker = Marker("vllm", "0.33.0", "vllm", 1, "2026-11-28T00:00:00Z")
    (isolated.parent / MARKER).write_bytes(msgspec.json.encode(marker))
    (data / "vllm-0.26.0").mkdir()
    found = engines.read("vllm", KNOWN["vllm"])
    assert [(each.version, each.executable) for each in found] == [
        ("0.30.0", str(tmp_path / "bin" / "vllm")),
        ("0.33.0", str(data / "vllm-0.33.0" / "bin" / "vllm")),
        (None, str(data / "vllm-0.26.0")),
    ]
    assert found[2].problem == f"vLLM 0.26.0 at {data / 'vllm-0.26.0'} is unfinished"
    assert found[2].remedy == "dflash engine remove vllm==0.26.0"


def test_none_at_all_is_one_answer_with_its_remedy(data):
    (found,) = engines.read("vllm", KNOWN["vllm"])
    assert found.executable is None
    assert found.remedy == "dflash engine install vllm==0.33.0"


def test_a_broken_one_is_told_with_where_it_is(data, tmp_path):
    (tmp_path / "bin").mkdir()
    broken = tmp_path / "bin" / "vllm"
    broken.write_text("#!/bin/sh\necho no such module >&2\nexit 1\n")
    broken.chmod(0o755)
    (found,) = engines.read("vllm", KNOWN["vllm"])
    assert found.executable == str(broken)
    assert "is broken: no such module" in found.problem


def test_an_engine_that_the_driver_could_not_run_is_not_recommended():
    state, remedy = (
        judged(MISSING, OLD_DRIVER, ready=())[:1][0],
        judged(MISSING, OLD_DRIVER, ready=())[-1],
    )
    assert state == "problem"
    assert "dflash engine install" not in str(remedy)
    assert "580.65.06" in str(remedy)
