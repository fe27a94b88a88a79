"""How a verification ends once every answer is there: what is kept, and what is said."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import typer

from dflash_deploy.cli._verify_table import _acceptance, _checks
from dflash_deploy.cli._verifying import INTERRUPTED, _Run, failed
from dflash_deploy.errors import DFlashError, Interrupted
from dflash_deploy.measure.kept import Kept
from dflash_deploy.measure.questions import Question
from dflash_deploy.measure.told import Said
from dflash_deploy.measure.verified import Accepted, Failing


class Ended(_Run):
    """All answered; `how` is what the telling comes to."""

    def __init__(self, kept: Kept, how: BaseException | None) -> None:
        self.kept, self.how, self.plain = kept, how, {0: Said}
        self.inquiry = SimpleNamespace(questions=[Question])

    def _told(self, stopped: DFlashError | None) -> None:
        assert stopped is None
        if self.how is not None:
            raise self.how


@pytest.fixture
def kept(tmp_path) -> Kept:
    (tmp_path / "answers.jsonl").write_text("all of them")
    return Kept(tmp_path / "answers.jsonl")


@pytest.mark.parametrize(
    "how", [KeyboardInterrupt(), SystemExit(143), DFlashError("no room for the output")]
)
def test_what_ends_it_before_the_verdict_is_told_leaves_the_answers(kept, how, capsys):
    with pytest.raises((Interrupted, SystemExit, DFlashError)) as raised:
        Ended(kept, how).finished()
    assert kept.path.exists()
    assert "is kept (1 of 1): the same command goes on" in capsys.readouterr().err
    if isinstance(how, KeyboardInterrupt):
        assert (raised.value.exit_code, raised.value.hint[:6]) == (130, "dflash")


@pytest.mark.parametrize("how", [None, typer.Exit(8), SystemExit(0)])
def test_a_verdict_that_was_told_leaves_nothing(kept, how):
    try:
        Ended(kept, how).finished()
    except (typer.Exit, SystemExit) as error:
        assert error is how
    assert not kept.path.exists()


def test_a_second_ctrl_c_ends_what_the_first_one_tells_in_one_line(kept):
    class Hurried(Ended):
        def _told(self, stopped: DFlashError | None) -> None:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="interrupted before every pair"):
        Hurried(kept, None).stopped(Interrupted(INTERRUPTED))
    assert kept.path.exists()


@pytest.mark.parametrize(
    ("length", "hint"), [(2.5, "--concurrency 1"), (1.0, "dflash plan m"), (None, "dflash plan m")]
)
def test_fewer_requests_are_no_hint_for_a_draft_that_is_never_right(length, hint):
    accepted = Accepted(length=length, drafts=3.0, plain_drafts=None, source="counters")
    found = SimpleNamespace(
        passed=False, failing=[Failing("nothing_drafted", "99% came without a draft")],
        acceptance=accepted, engine="vllm",
    )  # fmt: skip
    asked = SimpleNamespace(wanted=SimpleNamespace(model="m"), url=None)
    assert (failed(found, asked).hint or "").startswith(hint)


@pytest.mark.parametrize(
    ("compared", "complete", "said"), [(1, True, "1 pair of"), (1, False, "1 of 8 pairs of")]
)
def test_one_pair_is_no_pairs(compared, complete, said):
    found = SimpleNamespace(
        compared=compared, complete=complete, questions=8, workloads=[SimpleNamespace(name="chat")],
        judgement=None, accuracy=None, same_distribution=None, acceptance=None,
    )  # fmt: skip
    assert list(_checks(found)) == [("compared", f"{said} answers to chat")]


@pytest.mark.parametrize(
    ("drafted", "block", "told"),
    [
        (7.0, 8, "3.00 tokens a cycle; on record 3.50 (mixed: a run)"),
        (7.0, None, "3.00 tokens a cycle; on record 3.50 (mixed: a run)"),
        (7.0, 4, "3.00 tokens a cycle; its server drafts 7 a cycle: it has no block of 4"),
        (None, 4, "3.00 tokens a cycle; on record 3.50 (mixed: a run)"),
    ],
)
def test_a_block_that_the_server_has_not_is_told(drafted, block, told) -> None:
    found = Accepted(length=3.0, drafts=9, drafted=drafted, plain_drafts=None, source="s",
                     on_record=3.5, record="mixed: a run")  # fmt: skip
    assert _acceptance(found, block) == told
