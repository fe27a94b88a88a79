"""What is never said again."""

from __future__ import annotations

import pytest

from dflash_deploy.explain.secret import (
    is_secret_option,
    is_secret_variable,
    may_be_repeated,
    shown,
)
from dflash_deploy.flag_tables import tables

SECRETS = {"--api-key", "--admin-api-key", "--hf-token", "--ssl-keyfile-password"}


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_options_of_every_release_are_told_apart(engine: str) -> None:
    found = {name for table in tables(engine) for name in table.names() if is_secret_option(name)}
    assert found <= SECRETS
    assert "--api-key" in found


def test_variables() -> None:
    assert is_secret_variable("HF_TOKEN")
    assert is_secret_variable("AWS_SECRET_ACCESS_KEY")
    assert not is_secret_variable("TOKENIZERS_PARALLELISM")
    assert not is_secret_variable("CUDA_VISIBLE_DEVICES")


def test_a_part_is_one_line_without_keys_or_escapes() -> None:
    assert shown("a\x1b[31m\nb\udcff") == "a?[31m b?"
    assert shown("--x https://me:pw@host/ hf_abcdefghijk") == "--x https://...@host/ ..."
    assert len(shown("x" * 5000)) < 500


@pytest.mark.parametrize("word", ["\x1b[31m", "hf_abcdefghijk", "http://me:pw@host", "\udcff"])
def test_what_cannot_stand_in_a_command(word: str) -> None:
    assert not may_be_repeated(word)
    assert may_be_repeated('{"a":\n1}')


@pytest.mark.parametrize(
    "text",
    [
        "vllm serve Qwen/Qwen3-8B --hf-token {0}",
        "vllm serve Qwen/Qwen3-8B --hf_token={0}",
        "vllm serve Qwen/Qwen3-8B --api-key a {0}",
        "sglang serve --model-path Qwen/Qwen3-8B --api-key a {0}",
        "sglang serve --model-path Qwen/Qwen3-8B --ssl-keyfile-password {0}",
        "docker run -e HF_TOKEN={0} vllm/vllm-openai Qwen/Qwen3-8B",
        "export VLLM_API_KEY={0}\nvllm serve Qwen/Qwen3-8B",
        "vllm serve Qwen/Qwen3-8B --otlp-traces-endpoint http://me:{0}@host",
        "vllm serve hf_{0}",
        """vllm serve Qwen/Qwen3-8B --watermark-config '{{"key": "{0}", "algorithm": "gumbel"}}'""",
        """vllm serve Qwen/Qwen3-8B --watermark-config '{{"key": "{0} {0}'""",
        "vllm serve Qwen/Qwen3-8B --watermark-config.key {0}",
        "vllm serve Qwen/Qwen3-8B --watermark-config.key={0}",
        """vllm serve Qwen/Qwen3-8B --speculative-config '{{"method": "dflash", "token": "{0}"}}'""",
    ],
)
def test_no_report_says_one(explain, text: str) -> None:
    report = explain(text.format("4711secret4711"))
    assert "4711" not in repr((report.findings, report.right_text, report.target, report.refused))
