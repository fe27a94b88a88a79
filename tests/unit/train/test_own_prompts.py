"""This project's own prompts: `registry/workloads/training.yaml`."""

from __future__ import annotations

from dflash_deploy.train import prompts

PROSE = {"chat", "writing"}


def test_a_choice_that_is_left_empty_leaves_no_hole():
    for kind, messages in prompts.own(20_000, seed=12):
        assert kind not in PROSE or "  " not in messages[0]["content"]


def test_roles_are_said_as_they_stand():
    roles = prompts.own_roles()
    assert len(set(roles)) == len(roles)
    assert not [role for role in roles if "{" in role]
