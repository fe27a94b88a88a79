from __future__ import annotations

import pytest

from dflash_deploy.measure.acceptance import Acceptance
from dflash_deploy.measure.verdict import verdict
from dflash_deploy.plan import Expectation
from dflash_deploy.suspects import Suspect
from tests.fakes.plans import plan

SUSPECTS = (Suspect("thinking is on", "dflash serve x"), Suspect("fp8", "dflash serve y"))
PLAN = plan("vllm", expectation=Expectation(5.0, "gsm8k: the card"), suspects=SUSPECTS)


def seen(length: float | None, drafts: int | None = 50) -> Acceptance:
    return Acceptance(length, drafts, 256, "counters")


@pytest.mark.parametrize(
    ("acceptance", "state", "active"),
    [
        (seen(None, None), "unseen", False),
        (seen(None, 0), "inactive", False),
        (seen(1.0), "collapsed", False),
        (seen(1.04), "collapsed", False),
        (seen(2.4), "low", True),
        (seen(2.5), "fine", True),
        (seen(7.0), "fine", True),
        (seen(3.5, None), "fine", True),
    ],
)
def test_states(acceptance: Acceptance, state: str, active: bool) -> None:
    found = verdict(acceptance, PLAN)

    assert (found.state, found.active) == (state, active)
    assert bool(found.causes) == (state != "fine")


def test_without_evidence_any_working_draft_is_fine() -> None:
    found = verdict(seen(1.3), plan("vllm"))

    assert found.state == "fine"
    assert "nothing is published" in found.message


@pytest.mark.parametrize("length", [1.0, 2.0])
def test_the_causes_are_the_plans_own(length: float) -> None:
    assert verdict(seen(length), PLAN).causes == SUSPECTS


def test_a_server_that_drafts_nothing_has_other_causes() -> None:
    causes = verdict(seen(None, 0), PLAN).causes

    assert causes[0].remedy == "dflash plan Qwen/Qwen3-4B --engine vllm"
    assert not any("thinking" in cause.cause for cause in causes)


def test_the_message_names_both_numbers_and_the_source() -> None:
    message = verdict(seen(2.0), PLAN).message

    assert "2.00" in message
    assert "5.00 (gsm8k: the card)" in message
