"""Shell variables of a text."""

from __future__ import annotations

import pytest

from dflash_deploy.explain.report import reports
from dflash_deploy.explain.shell import LARGEST, from_text
from dflash_deploy.explain.variables import filled_in
from dflash_deploy.hardware import parse
from tests.unit.explain.test_flags import PAIR

TEXT = """\
export MODEL=Qwen/Qwen3-8B
DRAFT=z-lab/Qwen3-8B-DFlash-b16
PORT=9000
export NCCL_DEBUG=INFO
"""


def words(text: str) -> list[tuple[str, ...]]:
    return [command.words for command in filled_in(from_text(text)) if command.words]


def test_a_later_line_has_their_values(shipped) -> None:
    text = TEXT + PAIR.replace("Qwen/Qwen3-8B ", "$MODEL ").replace(
        "z-lab/Qwen3-8B-DFlash-b16", "${DRAFT}") + '--port "$PORT"'  # fmt: skip
    (report,) = reports(from_text(text), shipped, None, parse("H100", shipped.gpus))
    assert (report.target, report.right.port) == ("Qwen/Qwen3-8B", 9000)
    assert report.right.draft.id == "z-lab/Qwen3-8B-DFlash-b16"
    parts = {item.part for item in report.findings}
    assert "NCCL_DEBUG=INFO" in parts
    assert not {"MODEL=Qwen/Qwen3-8B", "PORT=9000"} & parts
    assert "MODEL" not in report.right.env


def test_keys_and_what_nobody_set_stay_names() -> None:
    text = "export HF_TOKEN=4711\nvllm serve $OTHER --x $HF_TOKEN $lower $(id)"
    assert words(text) == [
        ("vllm", "serve", "$OTHER", "--x", "$HF_TOKEN", "$lower", "$(id)"),
    ]


def test_the_last_value_counts_and_none_is_filled_in_twice() -> None:
    assert words("A=1\nA=2\nvllm serve $A") == [("vllm", "serve", "2")]
    assert words("A='$B'\nB=1\nvllm serve $A") == [("vllm", "serve", "$B")]


def test_values_do_not_grow_without_end() -> None:
    text = f"A={'x' * 4000}\n" + f"vllm serve {'$A' * 60}\n" * 20
    assert sum(len(word) for line in words(text) for word in line) < 2 * LARGEST


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("CACHE=$HOME/x " + PAIR, "CACHE=$HOME/x"),
        ("CACHE=~/x " + PAIR, "CACHE=~/x"),
        (PAIR + "--download-dir $HOME/x", "--download-dir $HOME/x"),
        (PAIR + "--seed $(date)", "--seed $(date)"),
        (PAIR + "--port $PORT", "--port $PORT"),
    ],
)
def test_what_a_shell_would_fill_in_is_told_and_left_out(explain, text: str, part: str) -> None:
    report = explain(text)
    assert {item.verdict for item in report.findings if item.part == part} == {"note"}
    assert "$" not in report.right_text
    assert "/x" not in report.right_text
