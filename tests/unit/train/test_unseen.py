"""What acceptance is measured on is never trained on: no prompt of the workloads is among the grammar's."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dflash_deploy.measure.prompts import read_prompts
from dflash_deploy.resources import registry_root
from dflash_deploy.train import prompts

WORDS = 8
"""As many in a row are a phrase of its own."""
CHARACTERS = 18
"""The same for Chinese, which writes no blanks: instructions may be shared, what they are about may not."""
DRAWN = 20_000


def runs(text: str) -> Iterator[str]:
    words = re.findall(r"[^\W\u4e00-\u9fff]+", text.lower())
    yield from (" ".join(words[at : at + WORDS]) for at in range(len(words) - WORDS + 1))
    signs = "".join(re.findall(r"[\u4e00-\u9fff]", text))
    yield from (signs[at : at + CHARACTERS] for at in range(len(signs) - CHARACTERS + 1))


def measured() -> dict[str, str]:
    files = sorted((registry_root() / "workloads").glob("*.jsonl"))
    assert files
    asked = [
        prompt.messages[-1]["content"] for file in files for prompt in read_prompts(file, "own")
    ]
    return {run: text for text in asked for run in runs(text)}


def test_no_drawn_prompt_shares_a_phrase_with_one_that_is_measured():
    known = measured()
    for _, messages in prompts.own(DRAWN, seed=11):
        for run in runs(messages[0]["content"]):
            assert run not in known, f"{run!r} of {known[run]!r}"
