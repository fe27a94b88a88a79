"""Words that a copy damaged."""

from __future__ import annotations

import pytest

from dflash_deploy.explain.mend import mended
from dflash_deploy.explain.shell import from_text

JSON = '{"method": "dflash"}'


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["--trust-remote-codeOnly", "Qwen3", "models"], ["--trust-remote-code"]),
        (["--enable-thinkingSGLang:"], ["--enable-thinking"]),
        (["--max-samples", "128Huge", "thanks"], ["--max-samples", "128"]),
        (["9000--max-model-len", "4096."], ["9000", "--max-model-len", "4096"]),
        (["9000\\--seed", "3\\"], ["9000", "--seed", "3"]),
        ([JSON + "--port", "9"], [JSON, "--port", "9"]),
        (["--enforce-eager--seed", "3"], ["--enforce-eager", "--seed", "3"]),
        (["--enforce-eager,", "--seed", "3)."], ["--enforce-eager", "--seed", "3"]),
        (["\u2013port", "1", "\u2014seed", "2", "\u2212-x", "\u2013p", "3"],
         ["--port", "1", "--seed", "2", "--x", "-p", "3"]),
    ],
)  # fmt: skip
def test_they_are_read_as_they_were_meant(words: list[str], meant: list[str]) -> None:
    kept, changed = mended(words)
    assert kept == meant
    assert changed
    assert set(changed) <= set(meant)


@pytest.mark.parametrize(
    "word",
    ["Qwen/Qwen3-8B", "--port=9000", "32K", "16Gi", "/hub/models--z-lab--Qwen3-8B-DFlash-b16", JSON,
     "[[1,16,15]]", "0.33.0", "--x=https://h/a--b", "1e-5", "-", "--", "3\u20134 of them", "v0.26.0",
     "--model=Foo", "127.0.0.1:8000:8000", "gemma4-dflash-cu130", "4B"],
)  # fmt: skip
def test_others_stay(word: str) -> None:
    assert mended([word]) == ([word], [])


def test_the_report_says_so_and_no_value(explain) -> None:
    report = explain("vllm serve Qwen/Qwen3-8B \u2013port 9000--api-key 4711secret4711")
    (note,) = [item for item in report.findings if item.part == "the text"]
    assert note.message.startswith("read as --port, 9000, --api-key: ")
    assert "4711" not in repr(report.findings)
    assert report.right.port == 9000


def test_code_marks_of_a_line_are_shed() -> None:
    assert from_text("`vllm serve a --x 1`.")[0].words == ("vllm", "serve", "a", "--x", "1")
