"""Install lines of cards and blogs."""

from __future__ import annotations

import pytest

SGLANG = "dflash engine install sglang==0.5.23"
VLLM = "dflash engine install vllm==0.33.0"
GIT = "git+https://github.com/sgl-project/sglang.git"


@pytest.mark.parametrize(
    ("line", "part", "verdict", "right"),
    [
        (f'pip install "sglang[all]@{GIT}@main"', "sglang from git, main", "stale", SGLANG),
        (f'pip install "{GIT}#subdirectory=python"', "sglang from git", "stale", SGLANG),
        (f'pip install "{GIT}@refs/pull/1/head"', "sglang pull request 1", "stale", SGLANG),
        ("pip install 'sglang[all]>=0.5'", "sglang>=0.5", "note", SGLANG),
        ("pip install vllm==0.33.*", "vllm==0.33.*", "note", VLLM),
        ("pip install vllm==0.21.0", "vllm==0.21.0", "wrong", VLLM),
        ("pip install vllm==99.0", "vllm==99.0", "note", VLLM),
        ("pip install -U vllm==0.33.0 --torch-backend=auto", "vllm==0.33.0", "fine", VLLM),
        ('uv pip install -e ".[sglang]"', ".[sglang]", "unneeded", SGLANG),
        ("pip install transformers==4.57.3", "transformers==4.57.3", "unneeded",
         "uv pip install 'dflash-deploy[local]'"),
        ("uv pip install 'vllm @ git+https://github.com/vllm-project/vllm.git@refs/pull/41703/head'",
         "vllm pull request 41703", "stale", SGLANG),
    ],
)  # fmt: skip
def test_a_line(explain, said, line: str, part: str, verdict: str, right: str) -> None:
    assert said(line)[part] == verdict
    assert explain(line).right_text == right
