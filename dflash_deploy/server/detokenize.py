"""Tokens to text as they come: no half characters, and nothing of a stop string."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from os.path import commonprefix

REPLACEMENT = "\ufffd"
# An unfinished character has at most three bytes, and a token at least one. A longer run that still
# ends in U+FFFD is text the model meant to write, or noise: neither gets better by waiting.
LONGEST_WAIT = 8


class Detokenizer:
    """Text of a growing list of tokens, in pieces whose sum is the text of them all.

    A token's text depends on its neighbours (bytes of one character, a leading space that only the
    first word loses), so each piece is the difference between two decodings that begin at the last
    token known to be whole.

    `shares` says how many of the last piece's characters came with each of the tokens since the
    piece before; it is empty while they wait. A character belongs to the token that completes it.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        self._window: list[int] = []
        self._given = 0  # tokens of the window whose text went out
        self._before = ""  # their text
        self._readings: list[str] = []  # what the window read as after each token that waits
        self.shares: tuple[int, ...] = ()

    def push(self, token: int) -> str:
        self._window.append(token)
        text = self._decode(self._window)
        self._readings.append(text)
        if text.endswith(REPLACEMENT) and len(self._readings) < LONGEST_WAIT:
            self.shares = ()
            return ""
        return self._give()

    def flush(self) -> str:
        """What was held back: the answer is over, so half a character is all there will be."""
        if not self._readings:
            self.shares = ()
            return ""
        return self._give()

    def _give(self) -> str:
        text = self._readings[-1]
        piece = text[len(self._before) :]
        self.shares = _shares(len(self._before), self._readings)
        self._readings.clear()
        if piece:  # a token without text (a special one) keeps the old start
            del self._window[: self._given]
            self._before = self._decode(self._window)
        self._given = len(self._window)
        return piece


def _shares(start: int, readings: Sequence[str]) -> tuple[int, ...]:
    """By how much each token made the text longer that still stands in the last reading."""
    final = readings[-1]
    standing = (
        len(commonprefix((reading, final)))  # noqa: RUF071 - characters are what is meant
        for reading in readings
    )
    return tuple(b - a for a, b in pairwise(accumulate(standing, max, initial=start)))


class StopStrings:
    """Cuts a stream of text before the first stop string, wherever the pieces break."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""
        self.hit = False

    def push(self, piece: str) -> str:
        """The text that is safe to show; `hit` says that a stop string came and the rest is cut."""
        text = self._held + piece
        found = [at for stop in self._stops if (at := text.find(stop)) >= 0]
        if found:
            self.hit, self._held = True, ""
            return text[: min(found)]
        keep = max((_overlap(text, stop) for stop in self._stops), default=0)
        cut = len(text) - keep
        self._held = text[cut:]
        return text[:cut]

    def flush(self) -> str:
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """How much of `text`'s end could be the beginning of `stop`."""
    longest = min(len(text), len(stop) - 1)
    return next((n for n in range(longest, 0, -1) if text.endswith(stop[:n])), 0)
