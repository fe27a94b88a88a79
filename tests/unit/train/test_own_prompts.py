"""This project's own prompts: `registry/workloads/training.yaml`."""

from __future__ import annotations

from pathlib import Path

from dflash_deploy.train import prompts

PROSE = {"chat", "writing"}
CARD = Path(__file__).parents[3] / "docs" / "demo-draft.md"


def test_a_choice_that_is_left_empty_leaves_no_hole():
    for kind, messages in prompts.own(20_000, seed=12):
        assert kind not in PROSE or "  " not in messages[0]["content"]


def test_roles_are_said_as_they_stand():
    roles = prompts.own_roles()
    assert len(set(roles)) == len(roles)
    assert not [role for role in roles if "{" in role]


def test_the_model_card_counts_the_roles_that_are_there():
    assert f"one of {len(prompts.own_roles())} system prompts" in CARD.read_text("utf-8")
