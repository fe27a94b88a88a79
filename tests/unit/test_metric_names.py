from __future__ import annotations

from typing import get_args

import pytest

from dflash_deploy.engine_schema import Meaning
from dflash_deploy.metric_names import metric_names
from dflash_deploy.registry import load

ENGINES = load(user=False).engines
# what no release of an engine counts
UNKNOWN = {
    "vllm": {"acceptance_length", "acceptance_rate", "verified_tokens"},
    "sglang": {"accepted_tokens", "accepted_per_position", "draft_tokens"},
    "transformers": {
        "acceptance_length",
        "acceptance_rate",
        "verified_tokens",
        "kv_usage",
        "cached_tokens",
    },
}


@pytest.mark.parametrize("engine", list(ENGINES))
def test_the_newest_release_counts_all_that_it_can(engine: str) -> None:
    names = metric_names(ENGINES[engine], ENGINES[engine].releases[-1].version)

    assert set(get_args(Meaning)) - names.keys() == UNKNOWN[engine]


@pytest.mark.parametrize("engine", list(ENGINES))
def test_a_release_has_one_name_for_each_meaning(engine: str) -> None:
    for release in ENGINES[engine].releases:
        known = ENGINES[engine]
        names = metric_names(known, release.version)
        seen = [m.meaning for m in known.metrics if m in names.values()]
        assert len(seen) == len(set(seen))


def test_sglang_counts_drafts_from_a_release_on() -> None:
    sglang = ENGINES["sglang"]

    assert "drafts" not in metric_names(sglang, "0.5.12.post1")
    assert metric_names(sglang, "0.5.14")["drafts"].name == "sglang:spec_verify_calls_total"
