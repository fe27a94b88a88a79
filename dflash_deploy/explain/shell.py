"""Published text taken apart into commands, as a shell would read it. Nothing is ever run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from dflash_deploy.errors import UsageError
from dflash_deploy.explain.cleaned import OPTIONAL, TOOLS, lines_of, shown
from dflash_deploy.explain.mend import mended

LARGEST = 1 << 18
"""Characters of a text; a published command has a thousandth of it."""
MOST_LINES = 60
"""That one quote may run over."""
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_PREFIXES = frozenset(
    {"sudo", "nohup", "time", "env", "exec", "export", "{", "do", "then", "else", "RUN", "CMD",
     "ENTRYPOINT"}
)  # fmt: skip
_STARTS = re.compile(rf"(?:^|[;&|(])\s*(?:[A-Za-z_]\w*=\S*\s+|\w+\s+)*?(?:\S*/)?{TOOLS}(?=\s)")
"""A line with a command in it: only there may a quote run on. Prose has apostrophes."""
_SEPARATORS = re.compile(r"[;&|]+")
_REDIRECTION = re.compile(r"\d*(?:>{1,2}|<{1,3})([^>]*)")


@dataclass(frozen=True)
class Words:
    """One command: the variables set for it, and its words."""

    words: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    optional_env: dict[str, str] = field(default_factory=dict)
    """Variables that the text shows behind a comment sign."""
    mended: tuple[str, ...] = ()
    """Words that a copy had damaged, as they were meant."""
    form: str | None = None
    """The kind of file that they are from; None: a shell's."""


def from_argv(argv: Iterable[str]) -> list[Words]:
    """The words after `--`: quotes are gone already, and nothing more is split."""
    words = list(argv)
    if len(words) == 1 and any(space in words[0] for space in " \n"):
        return from_text(words[0])
    if sum(map(len, words)) > LARGEST:
        raise too_long()
    return list(_commands(words))


def from_text(text: str) -> list[Words]:
    """Commands copied from a card: code fences, comments, continuations and table bars are shed.

    Raises UsageError for a command whose quotes never close, and for text as long as no command.
    """
    if len(text) > LARGEST or "\0" in text:
        raise too_long()
    return [command for line in _logical_lines(lines_of(text)) for command in _commands(line)]


def too_long() -> UsageError:
    return UsageError("this is no command: too long, or binary", hint="dflash explain -- COMMAND")


def _logical_lines(text: str) -> Iterator[list[str]]:
    """Each line of words; in a command, a quote may run over several lines, but no empty one."""
    pending: list[str] = []
    for line in [*text.split("\n"), ""]:
        if not (line or pending):
            continue
        if pending and (not line or len(pending) > MOST_LINES):
            raise UsageError(
                "a quote in this command is never closed", hint="dflash explain --file -"
            )
        pending.append(line)
        try:
            words = _split("\n".join(pending))
        except ValueError:
            if not _STARTS.search(pending[0]):
                pending.clear()
            continue
        pending.clear()
        if words:
            yield words


def _split(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|")
    lexer.whitespace_split = True
    lexer.commenters = ""
    words = [shown(word) for word in lexer]
    # a lone # starts a comment; inside a word it is part of an address
    return words[: words.index("#")] if "#" in words else words


def _commands(words: list[str]) -> Iterator[Words]:
    """Split at `;`, `&&` and `|`; an `export` alone is kept as a command of variables."""
    start = 0
    for end in range(len(words) + 1):
        if end == len(words) or _SEPARATORS.fullmatch(words[end]):
            if end > start:
                yield _with_env(list(_without_redirections(words[start:end])))
            start = end + 1


def _without_redirections(words: list[str]) -> Iterator[str]:
    """`> log` and `2>err` say where output goes; `<model>` is a placeholder."""
    file_follows = False
    for word in words:
        found = _REDIRECTION.fullmatch(word)
        if found or file_follows:
            file_follows = bool(found) and not (found and found[1])
        else:
            yield word


def _with_env(words: list[str]) -> Words:
    optional = words[:1] == [OPTIONAL]
    env: dict[str, str] = {}
    rest = words[1:] if optional else words
    rest, changed = mended(_without_parentheses(rest))
    at = 0
    while at < len(rest) and (rest[at] in _PREFIXES or ASSIGNMENT.fullmatch(rest[at])):
        name, equals, value = rest[at].partition("=")
        if equals:
            env[name] = value
        at += 1
    rest = rest[at:]
    return Words((), {}, env) if optional else Words(tuple(rest), env, mended=tuple(changed))


def _without_parentheses(words: list[str]) -> list[str]:
    """Of a subshell, which has its own variables and is a command all the same."""
    if not words or not words[0].startswith("("):
        return words
    *rest, last = [words[0][1:], *words[1:]]
    return [word for word in (*rest, last.removesuffix(")")) if word]
