"""One --engine-version, and a text with commands of both engines."""

from __future__ import annotations

import pytest

from dflash_deploy.errors import UsageError
from dflash_deploy.explain.report import Report, reports
from dflash_deploy.explain.shell import from_text
from dflash_deploy.hardware import parse

BOTH = "vllm serve Qwen/Qwen3-8B; sglang serve --model-path Qwen/Qwen3-8B"


@pytest.fixture
def judged(shipped):
    def of(text: str, version: str | None) -> list[Report]:
        return reports(from_text(text), shipped, version, parse("H100", shipped.gpus))

    return of


@pytest.mark.parametrize(
    ("asked", "vllm", "sglang"),
    [
        ("0.26.0", "0.26.0", "0.5.23"),
        ("0.40.0", "0.40.0", "0.5.23"),
        ("0.5.20", "0.33.0", "0.5.20"),
        ("0.28.0rc1", "0.28.0rc1", "0.5.23"),
        (None, "0.33.0", "0.5.23"),
    ],
)
def test_it_is_a_release_of_one_of_them(judged, asked, vllm, sglang) -> None:
    one, other = judged(BOTH, asked)
    assert (one.version, other.version) == (vllm, sglang)
    said = [title for title in (one.title, other.title) if "is a release of" in title]
    assert len(said) == (asked is not None)


def test_before_both_it_is_refused(judged) -> None:
    with pytest.raises(UsageError, match="of neither"):
        judged(BOTH, "0.4.9")


def test_of_one_engine_it_is_what_was_asked_for(judged) -> None:
    (one,) = judged("vllm serve Qwen/Qwen3-8B", "0.5.20")
    assert one.version == "0.5.20"
