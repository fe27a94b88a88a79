"""Whether a cycle drafts, and how much of its draft is checked: a losing draft turns itself down.

A cycle that finds nothing costs more than a plain step. How much more depends on the machine, on
what else runs there and on the length of the text, so it is measured while it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Protocol

from dflash_deploy.speculative.costs import Costs

# A block is checked in full where the draft gives at least this chance to its first half being
# right. On the CPU 8 rows cost the target about 1.2 times 4 rows, and the demo draft's chances are
# honest: over 16 prompts any value from 0.15 to 0.4 gave the same speed, 0.25 the best.
WIDE_FROM = 0.25

# All in plain steps. What a sequence may lose before it gained anything, what it keeps of its gains
# for worse times, and what a plain step adds: the share that is spent on trying again. Chosen by
# replaying 42 answers with the demo pair: with a cycle of 1.35 to 1.75 plain steps these lost the
# least where the draft is bad and kept all where it is good; their neighbours are nearly as good.
START, MOST, SHARE = 0.7, 4.0, 0.02


class Pace(Protocol):
    """One sequence's decisions.

    To keep sampling exact, whether a token is checked may depend on the draws before it and on
    no others.
    """

    def drafts(self) -> bool:
        """Whether the next cycle proposes a block; else it is a plain step of the target."""

    def checks(self, peaks: Sequence[float], widths: Sequence[int], limit: int) -> int:
        """How many draft tokens to have checked, at least 1 and at most `limit`.

        `widths` are the numbers of rows that the target is ready for. `peaks` are the chances of
        the tokens of the first half, and of the one behind them.
        """

    def spent(self, drafted: int, committed: int, seconds: float | None) -> None:
        """What the cycle came to; no seconds where its pass was others' as well."""


class Steady:
    """Always drafts: to measure a draft, and for answers that depend on no clock."""

    def drafts(self) -> bool:
        return True

    def checks(self, peaks: Sequence[float], widths: Sequence[int], limit: int) -> int:
        return fitting(widths, limit, wide=prod(peaks) >= WIDE_FROM)

    def spent(self, drafted: int, committed: int, seconds: float | None) -> None:
        del drafted, committed, seconds  # nothing is learnt


class Thrifty(Steady):
    """Drafts on credit: gains are paid in, losses are taken out, and without credit it is plain.

    So an answer loses no more than it was given, whatever its text: `START` once and `SHARE` of
    its steps. `repeatable` goes by the first measurement alone: a seed then repeats an answer.
    """

    def __init__(self, costs: Costs, *, repeatable: bool) -> None:
        self._costs = costs
        self._repeatable = repeatable
        self._credit = START

    def drafts(self) -> bool:
        if not self._repeatable and self._costs.plain_is_due:
            return False
        # half of what is lost if the block finds nothing: mostly it finds something; a first try
        # is always made, or a cost that was measured wrong would never be measured again
        return self._credit >= min(START, (self._relative(1) - 1) / 2)

    def spent(self, drafted: int, committed: int, seconds: float | None) -> None:
        if seconds is None:
            self._costs.interrupted()
        else:
            self._costs.add(drafted, seconds)
        gain = committed - self._relative(drafted) if drafted else SHARE
        self._credit = min(MOST, self._credit + gain)

    def _relative(self, drafted: int) -> float:
        return self._costs.relative(drafted, first=self._repeatable)


class Trial(Steady):
    """Plain steps and every width in turn, to learn what each costs."""

    def __init__(self, costs: Costs) -> None:
        self._costs = costs
        self._turn = 0

    def drafts(self) -> bool:
        return self._turn > 0

    def checks(self, peaks: Sequence[float], widths: Sequence[int], limit: int) -> int:
        del peaks
        return fitting(widths, limit, wide=self._turn > 1)

    def spent(self, drafted: int, committed: int, seconds: float | None) -> None:
        del committed
        if seconds is not None:
            self._costs.add(drafted, seconds)
        self._turn = (self._turn + 1) % 3


def fitting(widths: Sequence[int], limit: int, *, wide: bool) -> int:
    """The draft tokens of a block that is wide or narrow, and no longer than `limit`."""
    narrow, full = widths[0], widths[-1]
    rows = full if wide and full <= limit + 1 else narrow
    return min(limit, rows - 1)
