"""Shell variables of a text: set in one line, used in a later one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from dflash_deploy.explain.secret import is_secret_variable
from dflash_deploy.explain.shell import LARGEST, Words

_USED = re.compile(r"\$(?:\{([A-Za-z_]\w*)(?::?[-=]([^{}]*))?\}|([A-Za-z_]\w*))")
"""Its name, and what it is where nobody set it."""
_BY_A_SHELL = re.compile(r"\$[\w{(]|`|^~(?:/|$)")
_LONGEST = 4096
"""Of a value: a text of variables within variables would grow without end."""


def filled_in(commands: Iterable[Words]) -> Iterator[Words]:
    """Words with the values that the text gives their variables; keys stay names.

    A variable that only words use is no part of the server's environment; one in lower case is
    seldom any: a keyword argument of a client's snippet looks the same.
    """
    known: dict[str, str] = {}
    listed = list(commands)
    used = {name for command in listed for word in command.words for name in _names(word)}
    room = LARGEST
    for command in listed:
        known |= {
            name: value for name, value in command.env.items()
            if name in used and not is_secret_variable(name) and len(value) <= _LONGEST
        }  # fmt: skip
        words = tuple(_filled(word, known) for word in command.words)
        room -= sum(map(len, words))
        if room < 0:
            yield from listed[listed.index(command) :]
            return
        env = {
            name: value for name, value in command.env.items()
            if name not in known and (name.isupper() or name.endswith("_proxy"))
        }  # fmt: skip
        yield replace(command, words=words, env=env)


def needs_shell(word: str) -> bool:
    """Whether a shell would put something else in its place: no plan can say it."""
    return bool(_BY_A_SHELL.search(word))


def _names(word: str) -> list[str]:
    return [braced or bare for braced, _, bare in _USED.findall(word)]


def _filled(word: str, known: dict[str, str]) -> str:
    return _USED.sub(
        lambda found: known.get(found[1] or found[3], found[0] if found[2] is None else found[2]),
        word,
    )
