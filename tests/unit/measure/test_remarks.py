"""What a report shows of a server that was asked by others, or is not as its user says."""

from __future__ import annotations

import msgspec
import pytest

from dflash_deploy.measure.pays import verdict
from tests.fakes.reports import report, with_drafts


def test_who_else_asked_a_server_is_not_taken_for_a_draft_of_its_plain_decoding() -> None:
    asked = with_drafts(report(engine="transformers"), "plain", 15, "http://localhost:8000")
    (line,) = (each for each in verdict(asked) if each.startswith("plain: "))
    assert "somebody else asked the server meanwhile" in line
    (line,) = (each for each in verdict(msgspec.structs.replace(asked, engine="vllm"))
               if each.startswith("plain: "))  # fmt: skip
    assert "this server drafts as well" in line
    apart = [msgspec.structs.replace(arm, url=f"{arm.url}/{arm.name}") for arm in asked.arms]
    (line,) = (each for each in verdict(msgspec.structs.replace(asked, arms=tuple(apart)))
               if each.startswith("plain: "))  # fmt: skip
    assert "this server drafts as well" in line


@pytest.mark.parametrize(("tokens", "told"), [(7, False), (6, False), (15, True)])
def test_a_server_that_drafts_more_than_was_said_of_it_is_told(tokens: int, told: bool) -> None:
    made = with_drafts(report(), "dflash-8", tokens)
    assert any("more than a block of 8 has" in line for line in verdict(made)) is told
