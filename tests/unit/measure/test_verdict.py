from __future__ import annotations

import pytest

from dflash_deploy.measure.acceptance import Acceptance
from dflash_deploy.measure.verdict import verdict
from dflash_deploy.plan import Expectation

EXPECTED = Expectation(5.0, "gsm8k: the card")


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
    found = verdict(acceptance, EXPECTED)

    assert (found.state, found.active) == (state, active)
    assert bool(found.causes) == (state != "fine")


def test_without_evidence_any_working_draft_is_fine() -> None:
    found = verdict(seen(1.3), None)

    assert found.state == "fine"
    assert "nothing is published" in found.message


def test_causes_come_in_order_of_likelihood() -> None:
    causes = verdict(seen(1.0), EXPECTED, thinking="on").causes

    assert causes[0].startswith("thinking mode (here: on)")
    assert "revision" in causes[1]
    assert "quantized" in causes[2]
    assert "version" in causes[3]


def test_the_message_names_both_numbers_and_the_source() -> None:
    message = verdict(seen(2.0), EXPECTED).message

    assert "2.00" in message
    assert "5.00 (gsm8k: the card)" in message
