"""Install lines of cards and blogs."""

from __future__ import annotations

import pytest

from dflash_deploy.explain.report import reports
from dflash_deploy.explain.shell import from_text
from dflash_deploy.hardware import parse

SGLANG = "dflash engine install sglang==0.5.23"
VLLM = "dflash engine install vllm==0.33.0"
GIT = "git+https://github.com/sgl-project/sglang.git"


@pytest.mark.parametrize(
    ("line", "part", "verdict", "right"),
    [
        (f'pip install "sglang[all]@{GIT}@main"', "sglang from git, main", "stale", SGLANG),
        (f'pip install "{GIT}#subdirectory=python"', "sglang from git", "stale", SGLANG),
        (f'pip install "{GIT}@refs/pull/1/head"', "sglang pull request 1", "stale", SGLANG),
        ("pip install 'sglang[all]>=0.5'", "sglang[all]>=0.5", "note", SGLANG),
        ("uv pip install sglang", "sglang", "wrong", SGLANG),
        ("uv pip install 'sglang[all]'", "sglang[all]", "wrong", SGLANG),
        ("uv add sglang", "sglang", "wrong", SGLANG),
        ("uv pip install --prerelease=allow sglang", "sglang", "note", SGLANG),
        ("uv pip install 'sglang>=0.5.11'", "sglang>=0.5.11", "note", SGLANG),
        ("uv pip install vllm", "vllm", "note", VLLM),
        ("pip install sglang", "sglang", "note", SGLANG),
        ("pip install 'vllm>=0.28,<0.30'", "vllm>=0.28,<0.30", "note", VLLM),
        ("pip install 'vllm<0.20'", "vllm<0.20", "wrong", VLLM),
        ("pip install vllm sglang", "vllm sglang", "wrong", f"{VLLM}\n{SGLANG}"),
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


def test_a_range_is_pinned_to_the_newest_in_it(explain) -> None:
    (found,) = explain("pip install 'vllm>=0.28,<0.30'").findings
    assert found.message.endswith("as vllm==0.29.0")


@pytest.mark.parametrize("line", ["pip install vllm-flash-attn sgl-kernel", "uv add rich"])
def test_other_packages_are_nobodys_business(shipped, line: str) -> None:
    assert reports(from_text(line), shipped, None, parse("H100", shipped.gpus)) == []
