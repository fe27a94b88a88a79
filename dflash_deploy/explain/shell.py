"""Published text taken apart into commands, as a shell would read it. Nothing is ever run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from dflash_deploy.errors import UsageError

LARGEST = 1 << 18
"""Characters; a published command has a thousandth of it."""
_ASSIGNMENT = re.compile(r"[A-Z_][A-Z0-9_]*=.*", re.DOTALL)
"""Upper case alone: a keyword argument in a client's snippet is no variable."""
_IN_COMMENT = re.compile(
    r"(?:^|#|: )\s*((?:uv |python3? -m )?pip install|vllm serve|python3? -m|docker (?:model )?run|"
    r"sglang serve)(?= )"
)
"""Where a command starts on a line that lost its breaks: `# Start the server: vllm serve ...`."""
_COMMENTED_EXPORT = re.compile(r"#\s*export\s+([A-Za-z_]\w*)=(\S*)")
_OPTIONAL = "#optional"
"""How a variable behind a comment sign is marked until it is read."""
_SEPARATORS = re.compile(r"[;&|]+")


@dataclass(frozen=True)
class Words:
    """One command: the variables set for it, and its words."""

    words: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    optional_env: dict[str, str] = field(default_factory=dict)
    """Variables that the text shows behind a comment sign."""


def from_argv(argv: Iterable[str]) -> list[Words]:
    """The words after `--`: quotes are gone already, and nothing more is split."""
    words = list(argv)
    if len(words) == 1 and any(space in words[0] for space in " \n"):
        return from_text(words[0])
    return list(_commands(words))


def from_text(text: str) -> list[Words]:
    """Commands copied from a card: code fences, comments, continuations and table bars are shed.

    Raises UsageError for quotes that never close and for text no command can be as long as.
    """
    if len(text) > LARGEST or "\0" in text:
        raise UsageError(
            "this is no command: too long, or binary", hint="dflash explain -- COMMAND"
        )
    lines = [part for line in text.splitlines() for part in _unfolded(_bare(line))]
    marked = (_COMMENTED_EXPORT.sub(rf"{_OPTIONAL} \1=\2", line.strip()) for line in lines)
    kept = "\n".join(line for line in marked if not line.startswith(("# ", "##", "```")))
    joined = re.sub(r"\\[ \t]*\n", " ", kept)
    # a copy that lost its line breaks keeps the backslashes
    joined = re.sub(r"\s\\\s+", " ", joined)
    return [command for line in _logical_lines(joined) for command in _commands(line)]


def _bare(line: str) -> str:
    """A row of a table holds one line of the command, and a prompt is no part of it."""
    stripped = line.strip()
    if stripped.startswith("|"):
        stripped = stripped.strip("|").strip().removesuffix("|").strip()
    return stripped.removeprefix("$ ")


def _unfolded(line: str) -> Iterator[str]:
    """A comment with commands in it, as the hub's pages copy: each command on a line of its own."""
    starts = [found.start(1) for found in _IN_COMMENT.finditer(line)]
    if not line.startswith("#") or not starts:
        yield line
        return
    for start, end in zip(starts, [*starts[1:], None], strict=True):
        yield line[start:end].partition(" # ")[0]


def _logical_lines(text: str) -> Iterator[list[str]]:
    """Each line of words; a quote may run over several lines."""
    pending = ""
    for line in text.splitlines():
        pending = f"{pending}\n{line}" if pending else line
        try:
            words = _split(pending)
        except ValueError:
            continue  # the quote is still open
        pending = ""
        if words:
            yield words
    if pending:
        raise UsageError("a quote in this command is never closed", hint="dflash explain --file -")


def _split(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|")
    lexer.whitespace_split = True
    lexer.commenters = ""
    words = list(lexer)
    # a lone # starts a comment; inside a word it is part of an address
    return words[: words.index("#")] if "#" in words else words


def _commands(words: list[str]) -> Iterator[Words]:
    """Split at `;`, `&&` and `|`; an `export` alone is kept as a command of variables."""
    start = 0
    for end in range(len(words) + 1):
        if end == len(words) or _SEPARATORS.fullmatch(words[end]):
            if end > start:
                yield _with_env(words[start:end])
            start = end + 1


def _with_env(words: list[str]) -> Words:
    optional = words[0] == _OPTIONAL
    env: dict[str, str] = {}
    rest = words[1:] if words[0] == "export" or optional else words
    while rest and _ASSIGNMENT.fullmatch(rest[0]):
        name, _, value = rest[0].partition("=")
        env[name] = value
        rest = rest[1:]
    return Words((), {}, env) if optional else Words(tuple(rest), env)
