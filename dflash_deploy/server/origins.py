"""Which characters of an answer the draft proposed, and which are the target's own."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """Characters of one origin. `drafted`: proposed by the draft, and accepted by the target."""

    text: str
    drafted: bool


class Origins:
    """Follows each token's characters, in order, past all that holds text back.

    Tokens wait until their characters are whole, and text waits until it cannot be the beginning of
    a stop string. Both let go in the order in which they took, so counts are all there is to keep.
    """

    def __init__(self) -> None:
        self._waiting: list[bool] = []  # tokens whose text is not known yet
        self._runs: deque[tuple[int, bool]] = deque()  # characters that are not shown yet

    def push(self, *, drafted: bool, shares: Sequence[int]) -> None:
        """One more token; `shares` are the characters of all that waited, or nothing yet."""
        self._waiting.append(drafted)
        self.settle(shares)

    def settle(self, shares: Sequence[int]) -> None:
        if shares:
            self._runs.extend(zip(shares, self._waiting, strict=True))
            self._waiting.clear()

    def take(self, text: str) -> tuple[Span, ...]:
        """The text that is shown next, cut where its origin changes."""
        spans: list[Span] = []
        at = 0
        while at < len(text):
            count, drafted = self._runs.popleft()
            end = min(at + count, len(text))
            if at + count > end:
                self._runs.appendleft((at + count - end, drafted))
            _append(spans, text[at:end], drafted=drafted)
            at = end
        return tuple(spans)


def _append(spans: list[Span], text: str, *, drafted: bool) -> None:
    if not text:
        return
    if spans and spans[-1].drafted == drafted:
        text = spans.pop().text + text
    spans.append(Span(text, drafted))
