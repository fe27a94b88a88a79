"""Words of a command as a copy damaged them: text stuck to an option, dashes of a text editor."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_HYPHENS = str.maketrans("\u2010\u2011\u2012\u2212", "----")
_LONG_DASH = re.compile(r"[\u2013\u2014]+-?(?=[A-Za-z])")
_PROSE = re.compile(
    r"(--[a-z][a-z0-9-]*[a-z0-9](?=[A-Z][A-Za-z]{2})|\d+(?=[A-Z][a-z]{2})).*", re.DOTALL
)
"""`--trust-remote-codeOnly`, `128Huge`: the next sentence of the page; no option has capitals."""
_PUNCTUATED = re.compile(r"(--[a-z][a-z0-9-]*[a-z0-9]|\d+(?:\.\d+)?[kKmMgG]?)[.,;:!)]+")
_TWO = re.compile(
    r"(\d+[kKmMgG]?|--[a-z][a-z0-9-]*?[a-z0-9]|.*[}\]])\\?(--[a-z][a-z-]+(?:=.*)?)", re.DOTALL
)
"""`9000--max-model-len`, as a continuation without a space joins them."""

_LONGEST = 2000
"""Letters of a word that is looked at: two stuck together are searched for at each of them."""


def mended(words: Iterable[str]) -> tuple[list[str], list[str]]:
    """The words as they were meant, up to where prose begins; and those that were not so."""
    kept: list[str] = []
    changed: list[str] = []
    for word in words:
        if len(word) > _LONGEST:
            kept.append(word)
            continue
        found = _PROSE.fullmatch(word)
        now = [found[1]] if found else list(_split(_dashed(word)))
        kept += now
        changed += [] if now == [word] else now
        if found:
            break
    return kept, changed


def _dashed(word: str) -> str:
    """A dash that stands for the two of an option, or for the one of a letter."""
    plain = word.translate(_HYPHENS) if word[:1].translate(_HYPHENS) == "-" else word
    found = _LONG_DASH.match(plain)
    if not found:
        return plain
    rest = plain[found.end() :]
    return ("-" if len(rest) == 1 else "--") + rest


def _split(word: str) -> Iterator[str]:
    bare = word.removesuffix("\\")
    two = _TWO.fullmatch(bare)
    for part in (two[1], two[2]) if two else (bare,):
        found = _PUNCTUATED.fullmatch(part)
        yield found[1] if found else part
