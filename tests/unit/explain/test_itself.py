"""A draft that says which target it is for: vLLM serves both."""

from __future__ import annotations

import pytest

from dflash_deploy.errors import Unsupported
from dflash_deploy.plan import Plan

LAGUNA = "poolside/Laguna-XS.2-speculator.dflash"


def test_vllm_serves_it_with_its_target(explain) -> None:
    report = explain(f"vllm serve {LAGUNA} -tp 2 --spec-tokens 5")
    found = {item.part: item for item in report.findings}
    assert found[LAGUNA].verdict == "fine"
    assert "poolside/Laguna-XS.2," in found[LAGUNA].message
    assert not {"wrong", "stale"} & {item.verdict for item in report.findings}
    assert not {"method", "model", "num_speculative_tokens"} & found.keys()
    assert isinstance(report.right, Plan)
    assert (report.right.model, report.right.draft.id) == ("poolside/Laguna-XS.2", LAGUNA)
    assert (report.right.block_size, report.right.tensor_parallel) == (6, 2)


@pytest.mark.parametrize(
    ("text", "version", "verdict"),
    [
        (f"vllm serve --model {LAGUNA}", None, "fine"),
        ("vllm serve RedHatAI/Qwen3-4B-speculator.dflash2", "0.29.0", "fine"),
        ("vllm serve RedHatAI/Qwen3-4B-speculator.dflash2", "0.28.0", "wrong"),
        (f"sglang serve --model-path {LAGUNA}", None, "wrong"),
        (f"docker model run hf.co/{LAGUNA}", None, "wrong"),
        ("vllm serve z-lab/Qwen3-8B-DFlash-b16", None, "wrong"),
        ("vllm serve me/some-speculator.dflash", None, "note"),
    ],
)
def test_by_engine_release_and_layout(said, text, version, verdict) -> None:
    part = text.removeprefix("vllm serve ").removeprefix("sglang serve ").rpartition("hf.co/")[2]
    assert said(text, version=version)[part] == verdict


def test_what_the_draft_says_itself_is_unneeded(said) -> None:
    found = said(f"vllm serve {LAGUNA} --spec-method dflash --spec-model me/other")
    assert found["--spec-method dflash"] == found["--spec-model me/other"] == "unneeded"


def test_one_whose_config_nobody_read_is_valid_all_the_same(explain) -> None:
    report = explain("vllm serve RedHatAI/Qwen3-8B-speculator.dflash")
    assert "wrong" not in {item.verdict for item in report.findings}
    assert isinstance(report.right, Unsupported)
