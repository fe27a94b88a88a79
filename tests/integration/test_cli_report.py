"""`dflash report`: a saved benchmark told again, and beside another."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from dflash_deploy.measure.report import Report
from tests.fakes.reports import GENTLE, report

SLOWER = GENTLE | {"dflash-16": GENTLE["dflash-16"] | {8: (1500, 1520)}}


def saved(path: Path, made: Report) -> str:
    path.write_bytes(msgspec.json.encode(made))
    return str(path)


@pytest.fixture
def old(tmp_path: Path) -> str:
    return saved(tmp_path / "old.json", report())


@pytest.fixture
def new(tmp_path: Path) -> str:
    return saved(tmp_path / "new.json", report(SLOWER))


def test_as_text_with_what_was_published(dflash, old):
    told = dflash.run("report", old)
    assert (told.code, told.err) == (0, "")
    verdict, *rest = told.out.splitlines()
    assert verdict.startswith("DFlash pays from 1 to 64 in flight")
    row = next(line for line in rest if line.split()[:2] == ["1", "dflash-16"])
    assert row.split()[2:6] == ["402", "0.5%", "4.02x", "5.1x"]


def test_as_markdown_page_and_json(dflash, old):
    assert dflash.run("report", old, "--format", "markdown").out.startswith("# Qwen/Qwen3-8B")
    page = dflash.run("report", old, "--format", "html").out
    assert page.startswith("<!doctype html>")
    assert page.endswith("</html>\n")
    document = json.loads(dflash.run("report", old, "--json").out)
    assert document["verdict"][0].startswith("DFlash pays")
    assert msgspec.convert(document, Report).cells == report().cells


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_page_is_whole_whatever_stdout_is_encoded_in(dflash, old, encoding):
    page = dflash.run("report", old, "--format", "html", env={"PYTHONIOENCODING": encoding}).out
    assert page.isascii()
    assert "4.02&#215; (" in page


def test_made_up_acceptance_is_said_first(dflash, tmp_path):
    made = saved(tmp_path / "synthetic.json", report(synthetic=6.5))
    told = dflash.run("report", made).out
    assert told.startswith("SYNTHETIC")
    assert "mixed (SYNTHETIC acceptance)" in told


def test_a_model_of_no_registry_is_told_all_the_same(dflash, tmp_path):
    own = saved(tmp_path / "own.json", report(model="me/mine", draft="me/mine-dflash"))
    told = dflash.run("report", own)
    assert told.code == 0
    assert "RECORD" not in told.out


def test_beside_an_earlier_one(dflash, old, new):
    told = dflash.run("report", new, "--compare", old)
    assert (told.code, told.err) == (0, "")
    assert "0.75x  slower" in told.out
    gated = dflash.run("report", new, "--compare", old, "--gate")
    assert gated.code == 8
    assert "1 of 12 cells are slower" in gated.err
    assert dflash.run("report", old, "--compare", old, "--gate").code == 0
    document = json.loads(dflash.run("report", new, "--compare", old, "--json").out)
    assert [each["state"] for each in document["changes"]].count("slower") == 1


def test_a_failed_gate_is_one_document(dflash, old, new):
    told = dflash.run("report", new, "--compare", old, "--gate", "--json")
    assert told.code == 8
    assert json.loads(told.out)["error"]["code"] == "gate"


def test_what_cannot_be_compared_is_said(dflash, old, tmp_path):
    other = saved(tmp_path / "other.json", report(engine="sglang"))
    told = dflash.run("report", other, "--compare", old)
    assert told.code == 0
    assert "not compared: the engine was vllm and is sglang" in told.err
    assert dflash.run("report", other, "--compare", old, "--gate").code == 8


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("none.json",), "cannot be read"),
        (("--gate",), "--gate is about --compare"),
    ],
)
def test_slips_are_one_line_and_a_hint(dflash, old, words, why):
    argv = words if words[0] == "none.json" else (old, *words)
    told = dflash.run("report", *argv)
    assert (told.code, told.out) == (2, "")
    assert why in told.err.splitlines()[0]
    assert "hint:" in told.err


def test_a_file_of_something_else(dflash, tmp_path):
    other = tmp_path / "other.json"
    other.write_text('{"a": 1}')
    told = dflash.run("report", str(other))
    assert told.code == 2
    assert "is no report of `dflash bench`" in told.err


def test_what_bench_wrote_is_read_and_no_evidence_without_a_card(dflash, port, tmp_path):
    dflash.module = "tests.fakes.hasty"
    file = str(tmp_path / "bench.json")
    env = {"FAKE_ENGINE_CHUNK_DELAY": "0.004"}
    ended = dflash.run(
        "bench", "gpt-oss-20b", "--engine", "vllm", "--port", str(port), "--concurrency", "1,4",
        "--num-prompts", "4", "--repeats", "2", "--max-tokens", "24", "--output", file, env=env,
    )  # fmt: skip
    assert ended.code == 0, ended.err
    told = dflash.run("report", file)
    assert (told.code, told.err) == (0, "")
    assert "dflash-8" in told.out
    page = dflash.run("report", file, "--format", "html").out
    assert page.count("<figure>") == 5
    assert dflash.run("report", file, "--compare", file, "--gate").code == 0
    refused = dflash.run("registry", "evidence", "add", file)
    assert refused.code == 2
    assert "does not say which card" in refused.err
