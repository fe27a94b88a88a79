"""Published text taken apart into commands, as a shell would read it. Nothing is ever run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from dflash_deploy.errors import UsageError
from dflash_deploy.explain.mend import mended

LARGEST = 1 << 18
"""Characters of a text; a published command has a thousandth of it."""
MOST_LINES = 60
"""That one quote may run over."""
_ASSIGNMENT = re.compile(r"[A-Z_][A-Z0-9_]*=.*", re.DOTALL)
"""Upper case alone: a keyword argument in a client's snippet is no variable."""
_PREFIXES = frozenset({"sudo", "nohup", "time", "env", "exec", "export", "{", "("})
_TOOLS = (
    r"(?:vllm serve|sglang serve|python[\d.]* -m (?:sglang|vllm|dflash|pip)[\w.]*"
    r"|torchrun|uv run|uvx"
    r"|(?:docker|podman) (?:model |container )?run|(?:uv )?pip3? install)"
)
_STARTS = re.compile(rf"(?:^|[;&|(])\s*(?:[A-Za-z_]\w*=\S*\s+|\w+\s+)*?(?:\S*/)?{_TOOLS}(?=\s)")
"""A line with a command in it: only there may a quote run on. Prose has apostrophes."""
_IN_COMMENT = re.compile(rf"(?:^|#|: )\s*((?:uv |python3? -m )?{_TOOLS})(?= )")
"""Where a command starts on a line that lost its breaks: `# Start the server: vllm serve ...`."""
_GLUED = re.compile(
    r"(?<=[a-z0-9])(?=vllm serve [\w\"']|export [A-Z_]+=|python3? -m (?:sglang|vllm|dflash)\.)"
)
"""Two commands that a copy ran together: `--x 32768export A=1`."""
_PROMPT = re.compile(
    r"(?:\([\w.-]+\)\s*)?(?:[\w.-]+@[\w.-]+:[^\s$#%]*[$%#]\s+|[$%]\s+)"
    r"|>{1,3}\s+|!(?=\w)|PS \S*>\s+"
)
"""What a terminal, a notebook or a quotation puts before a command."""
_TYPOGRAPHIC = str.maketrans("\u2018\u2019\u201c\u201d\u00a0", "''\"\" ")
"""As word processors and blogs mend quotes."""
_CONTROLS = re.compile(r"[\x01-\x08\x0b-\x1f\x7f\x80-\x9f]")
_COMMENTED_EXPORT = re.compile(r"#\s*export\s+([A-Za-z_]\w*)=(\S*)")
_OPTIONAL = "#optional"
"""How a variable behind a comment sign is marked until it is read."""
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
    plain = _CONTROLS.sub("", text.translate(_TYPOGRAPHIC))
    lines = (
        part
        for line in plain.splitlines()
        for whole in _GLUED.sub("\n", line).splitlines()
        for part in _unfolded(_bare(whole))
    )
    marked = (_COMMENTED_EXPORT.sub(rf"{_OPTIONAL} \1=\2", line.strip()) for line in lines)
    kept = [
        "" if line.startswith("```") else line
        for line in marked if not line.startswith(("# ", "##"))
    ]  # fmt: skip
    joined = re.sub(r"\\[ \t]*\n", " ", "\n".join(kept))
    # a copy that lost its line breaks keeps the backslashes
    joined = re.sub(r"[ \t]\\[ \t]+|\\[ \t]+(?=--)", " ", joined)
    return [command for line in _logical_lines(joined) for command in _commands(line)]


def too_long() -> UsageError:
    return UsageError("this is no command: too long, or binary", hint="dflash explain -- COMMAND")


def _bare(line: str) -> str:
    """A row of a table holds one line of the command, and a prompt is no part of it."""
    stripped = line.strip()
    if stripped.startswith("|"):
        stripped = stripped.strip("|").strip().removesuffix("|").strip()
    if stripped.startswith("`") and not stripped.startswith("```"):
        stripped = stripped.strip("`. ")
    return _PROMPT.sub("", stripped, count=1) if _PROMPT.match(stripped) else stripped


def _unfolded(line: str) -> Iterator[str]:
    """A comment with commands in it, as the hub's pages copy: each command on a line of its own."""
    starts = [found.start(1) for found in _IN_COMMENT.finditer(line)]
    if not line.startswith("#") or not starts:
        yield line
        return
    for start, end in zip(starts, [*starts[1:], None], strict=True):
        yield line[start:end].partition(" # ")[0]


def _logical_lines(text: str) -> Iterator[list[str]]:
    """Each line of words; in a command, a quote may run over several lines, but no empty one."""
    pending: list[str] = []
    for line in [*text.splitlines(), ""]:
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
    words = list(lexer)
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
    optional = words[:1] == [_OPTIONAL]
    env: dict[str, str] = {}
    rest = words[1:] if optional else words
    rest, changed = mended(rest)
    while rest and (rest[0] in _PREFIXES or _ASSIGNMENT.fullmatch(rest[0])):
        name, equals, value = rest[0].partition("=")
        if equals:
            env[name] = value
        rest = rest[1:]
    return Words((), {}, env) if optional else Words(tuple(rest), env, mended=tuple(changed))
