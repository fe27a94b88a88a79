"""Options under another release's name, and what this release calls them."""

from __future__ import annotations

from dataclasses import dataclass

from dflash_deploy.engine_schema import Renamed
from dflash_deploy.explain.serving import Serving
from dflash_deploy.flag_faults import fault
from dflash_deploy.flag_tables import Given, flag_table, parse
from dflash_deploy.situation import flag_for


@dataclass(frozen=True)
class Today:
    """What this release says instead; no words: nothing takes the option's place."""

    words: tuple[str, ...]
    why: str = ""

    @property
    def said(self) -> str:
        """The rest of a sentence that begins with the option."""
        if not self.words:
            return f": {self.why}" if self.why else ""
        return f": it is {' '.join(self.words)} now"


def today(given: Given, serving: Serving) -> Today | None:
    """What became of an option that this release does not know; None where nobody knows."""
    setting = serving.meaning(given.flag)
    if setting != given.flag:
        spelled = flag_for(serving.engine, setting, serving.version)
        return _as_taken(spelled, given.words, serving) if spelled else None
    found = next((r for r in serving.engine.renamed if r.flag == given.flag), None)
    if found is None:
        return _before(given, serving)
    if found.now is None:
        return Today((), found.why or "")
    renamed = Given(found.now, _words(found, given.words), found.now)
    if _knows(found.now, serving):
        return _as_taken(found.now, renamed.words, serving)
    return today(renamed, serving)


def given_today(given: Given, serving: Serving) -> Given | None:
    """The option as this release would read it; None where it does not take it."""
    found = today(given, serving)
    if found is None or not found.words:
        return None
    return parse(flag_table(serving.name, serving.version), found.words)[0]


def _before(given: Given, serving: Serving) -> Today | None:
    """The name that an option had before the one of a later release."""
    for old in serving.engine.renamed:
        plain = old.now == given.flag and not old.words and old.value is None
        if plain and _knows(old.flag, serving):
            return _as_taken(old.flag, given.words, serving)
    return None


def _as_taken(flag: str, words: tuple[str, ...], serving: Serving) -> Today:
    """No words where this release's parser refuses them."""
    read = parse(flag_table(serving.name, serving.version), (flag, *words))
    if len(read) == 1 and fault(read[0]) is None:
        return Today((flag, *words))
    return Today((), f"{flag}, in its place, does not take {' '.join(words)}")


def _words(found: Renamed, words: tuple[str, ...]) -> tuple[str, ...]:
    if found.value is not None:
        return (found.value,)
    now = {word.was: word.now for word in found.words}
    return tuple(now.get(word, word) for word in words)


def _knows(flag: str, serving: Serving) -> bool:
    table = flag_table(serving.name, serving.version)
    return table is None or flag in table.names()
