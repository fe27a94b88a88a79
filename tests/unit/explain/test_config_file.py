"""`--config FILE` of an engine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dflash_deploy.explain.config_file import LARGEST, named_in, read_file
from dflash_deploy.explain.report import Report, reports
from dflash_deploy.explain.shell import from_text
from dflash_deploy.hardware import parse

VLLM = """\
model: Qwen/Qwen3-8B
port: 9000
max_num_seqs: 12
tensor-parallel-size: 3
enable-prefix-caching: false
enforce-eager: false
nonsense: 4711secret
api-key: 4711secret
hf-token: hf_4711secret4711
served-model-name: [a, b]
speculative-config:
  method: dflash
  model: z-lab/Qwen3-8B-DFlash-b16
  num_speculative_tokens: 31
"""


@pytest.fixture
def judged(shipped, tmp_path):
    def of(command: str, text: str = VLLM) -> Report:
        path = tmp_path / "serve.yaml"
        path.write_text(text)
        words = from_text(command.format(path))
        (report,) = reports(words, shipped, None, parse("H100:4", shipped.gpus), read_file)
        return report

    return of


def verdicts(report: Report) -> dict[str, str]:
    return {item.part: item.verdict for item in report.findings}


def test_its_options_are_judged_as_if_they_were_typed(judged) -> None:
    report = judged("vllm serve --config {} --port 9001")
    expected = {
        "--model Qwen/Qwen3-8B (serve.yaml)": "fine",
        "--port 9000 (serve.yaml)": "unneeded",
        "--port 9001": "fine",
        "--tensor-parallel-size 3 (serve.yaml)": "wrong",
        '"num_speculative_tokens": 31 (serve.yaml)': "wrong",
        '"model": "z-lab/Qwen3-8B-DFlash-b16" (serve.yaml)': "fine",
        "--nonsense ... (serve.yaml)": "wrong",
        "--no-enable-prefix-caching (serve.yaml)": "fine",
        "--served-model-name a b (serve.yaml)": "note",
    }
    assert verdicts(report).items() >= expected.items()
    right = report.right
    assert (right.port, right.concurrency, right.block_size) == (9001, 12, 16)
    assert "--no-enable-prefix-caching" in right.argv
    assert not {"--config", "--enforce-eager", "--nonsense"} & {*right.argv}


def test_no_key_in_it_is_said_again(judged) -> None:
    report = judged("vllm serve --config {}")
    assert "4711" not in repr((report.findings, report.right_text))
    assert verdicts(report)["--api-key ... (serve.yaml)"] == "fine"
    assert 'VLLM_API_KEY="$DFLASH_API_KEY"' in report.right_text


def test_a_model_that_is_typed_goes_before_that_of_the_file(judged) -> None:
    assert judged("vllm serve Qwen/Qwen3-4B --config {}", "model: Qwen/Qwen3-8B").target == (
        "Qwen/Qwen3-4B"
    )
    assert judged("vllm serve Qwen/Qwen3-4B --config {}", "served-model-name: [a]").target == (
        "Qwen/Qwen3-4B"
    )


def test_sglang_wants_dashes(judged) -> None:
    command = "sglang serve --model-path Qwen/Qwen3-8B --config {}"
    found = judged(command, "mem_fraction_static: 0.8\n").findings
    assert [item.verdict for item in found if item.part.startswith("--config")] == ["wrong"]
    fine = judged(command, "mem-fraction-static: 0.8\nenable-metrics: true\n")
    assert verdicts(fine)["--mem-fraction-static 0.8 (serve.yaml)"] == "fine"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: [1", "is no YAML, line"),
        ("a: &b 4711secret\nc: *b\n", "is no YAML, line 1"),
        ("- 4711secret", "is no list of options"),
        ("4711secret: 1", "is no list of options"),
        ("", "is no YAML"),
        ("a: " + "x" * LARGEST, "is larger"),
    ],
)
def test_what_is_no_file_of_options(judged, text: str, why: str) -> None:
    report = judged("vllm serve Qwen/Qwen3-8B --config {}", text)
    (note,) = [item for item in report.findings if item.part.startswith("--config")]
    assert (note.verdict, f"the file {why}" in note.message) == ("note", True)
    assert "paste its lines" in note.message
    assert "4711" not in repr(report.findings)


def test_pipes_folders_and_other_names_are_not_read(tmp_path: Path) -> None:
    pipe, folder = tmp_path / "pipe.yaml", tmp_path / "folder.yaml"
    os.mkfifo(pipe)
    folder.mkdir()
    for path in (pipe, folder, tmp_path / "none.yaml"):
        assert read_file(str(path)).trouble.startswith("cannot be read here")
    assert "no .yaml" in read_file("/etc/passwd").trouble
    assert "no name" in read_file("a\0.yaml").trouble


def test_a_path_inside_a_container_is_none_of_this_machine(judged) -> None:
    report = judged("docker run vllm/vllm-openai:v0.33.0 Qwen/Qwen3-8B --config {}")
    (note,) = [item for item in report.findings if item.part.startswith("--config")]
    assert "is not on this machine" in note.message


def test_the_name_of_the_file() -> None:
    assert named_in(("--config", "a.yaml")) == named_in(("m", "--config=a.yaml")) == "a.yaml"
    assert named_in(("--config",)) is named_in(("m", "--x")) is None
