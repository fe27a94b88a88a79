"""A draft that is known, and whose target is not: nothing is claimed of that target."""

from __future__ import annotations

import pytest

from dflash_deploy.registry import load

DRAFT = "modal-labs/Kimi-K3-DFlash"
SPEAKS = "RedHatAI/Mistral-Small-4-119B-2603-speculator.dflash"
"""In the layout of speculators, which names its target: vLLM serves both."""


@pytest.mark.parametrize(
    ("text", "part", "verdict", "words"),
    [
        (f"vllm serve {DRAFT}", DRAFT, "wrong", "no chat model"),
        (f"docker model run hf.co/{DRAFT}", DRAFT, "wrong", "no chat model"),
        (
            f"vllm serve org/Target --spec-method dflash --spec-model {DRAFT}",
            f"--spec-model {DRAFT}",
            "note",
            "is not known here",
        ),
        (
            f"vllm serve Qwen/Qwen3-8B --spec-method dflash --spec-model {DRAFT}",
            f"--spec-model {DRAFT}",
            "note",
            "is not known here",
        ),
    ],
)
def test_what_is_said_of_it(explain, text: str, part: str, verdict: str, words: str) -> None:
    found = {item.part: item for item in explain(text).findings}
    assert (found[part].verdict, words in found[part].message) == (verdict, True), found
    assert not any(f"for {DRAFT}" in item.message for item in found.values())


def test_one_that_names_its_target_is_not_called_wrong(explain) -> None:
    found = explain(f"vllm serve {SPEAKS}").findings
    assert "wrong" not in {item.verdict for item in found}
    assert "whom it is for" in next(item.message for item in found if item.part == SPEAKS)


def test_every_such_entry_is_one_that_nothing_serves() -> None:
    stand_ins = [entry for entry in load(user=False).entries.values() if entry.stands_in]
    assert {entry.name for entry in stand_ins} >= {"kimi-k3", "kimi-k3.1", "nemotron-3-ultra"}
    assert all(entry.model.unservable for entry in stand_ins)
