"""What cycles cost in plain steps on this machine, by those that came right after one another."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from statistics import median

# the latest comparisons of each width that count, by their median: one pause says nothing
REMEMBERED = 9
# so many cycles after the last plain step another one is due, to be compared with
PLAIN_DUE = 48


class Costs:
    """A cycle is compared with the plain step before or behind it, and with no other.

    Another program may slow a machine down to a fraction for a second or an hour; two neighbours
    are slowed alike.
    """

    def __init__(self, widths: Sequence[int]) -> None:
        self._ratios: dict[int, deque[float]] = {
            rows - 1: deque(maxlen=REMEMBERED) for rows in widths
        }
        self._first: dict[int, float] = {}
        self._before: tuple[int, float] | None = None
        self._cycles = 0

    @property
    def plain_is_due(self) -> bool:
        """Whether the cycles have not been compared for long."""
        return self._cycles >= PLAIN_DUE

    def add(self, drafted: int, seconds: float) -> None:
        """One more time: of a plain step, or of a cycle that checked so many draft tokens."""
        self._cycles = self._cycles + 1 if drafted else 0
        times = dict((self._before, (drafted, seconds)) if self._before else ())
        self._before = drafted, seconds
        plain = times.pop(0, 0.0)
        for other, cycle in times.items():
            # a block cut short by the end of an answer says nothing of others
            if plain and other in self._ratios:
                self._ratios[other].append(cycle / plain)

    def interrupted(self) -> None:
        """A pass of several sequences came between: what was before it is no neighbour.

        Nor is a plain step due, which would then be due for as long as they share.
        """
        self._before = None
        self._cycles = 0

    def keep_first(self) -> None:
        """Remember what is known now as the first measurement."""
        self._first = {width: median(ratios) for width, ratios in self._ratios.items() if ratios}

    def relative(self, drafted: int, *, first: bool = False) -> float:
        """A cycle with so many draft tokens in plain steps; 1 as long as nothing is known.

        Counts in between cost what the next larger known one does.
        """
        width = min((known for known in self._ratios if known >= drafted), default=0)
        ratios = self._ratios.get(width)
        if first or not ratios:
            return self._first.get(width, 1.0)
        return median(ratios)
