"""What `dflash train` says of a draft once it is there."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from dflash_deploy.cli import _training_told as module
from dflash_deploy.train import estimate
from dflash_deploy.train.recipe import MEASURED
from tests.unit.train import small


@pytest.mark.parametrize(("length", "warned"), [(1.0, True), (2.5, False)])
def test_a_draft_that_is_never_right_is_warned_of(length, warned, tmp_path, monkeypatch, capsys):
    acceptance = {
        "acceptance_length": length, "by_position": [0.0], "by_kind": {}, "prompts": 2,
        "checked": 2, "equal": 2, "near_ties": 0, "partings": [],
    }  # fmt: skip
    (tmp_path / MEASURED).write_text(json.dumps(acceptance))
    monkeypatch.setattr(module, "entered", lambda *_, **__: None)
    wanted = SimpleNamespace(json=False)
    module.told(wanted, small.recipe(), tmp_path, None, finished=False)
    assert ("drafts nothing that its target would say" in capsys.readouterr().err) is warned


def test_a_dry_run_counts_the_prompts_that_the_target_writes(capsys) -> None:
    plan = small.recipe(prompts=30000, self_prompts=20000)
    size = estimate.Size(parameters=1e6, hidden=64, vocabulary=1000, layers=2)
    module.told_estimate("t", plan, estimate.estimate(plan, size, estimate.CPU), json=False)
    assert "30,000 prompts and 20,000 of the target's own" in " ".join(
        capsys.readouterr().out.split()
    )
