"""A prompt, and files of prompts: one JSON object a line, wrong lines named."""

from __future__ import annotations

import hashlib
import random
import re
from codecs import BOM_UTF8
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Literal

import msgspec

from dflash_deploy.errors import UsageError, unread
from dflash_deploy.named_file import start_of

LARGEST = 64 << 20
"""Bytes of a file: a million prompts is no workload but a slip."""
SHAPE = 'as in: {"prompt": "Why is the sky blue?", "category": "chat"}'

_HALF = re.compile("[\ud800-\udfff]")


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    role: Literal["system", "user", "assistant"]
    content: str


class Prompt(msgspec.Struct, frozen=True):
    """One question, and what is known of its answer."""

    text: str
    """The last message, the user's."""
    category: str
    answer: str | None = None
    """What a right answer comes to; None: nobody can say."""
    before: tuple[Message, ...] = ()
    """What was said before it."""

    @property
    def messages(self) -> list[dict[str, str]]:
        """The conversation as the chat API takes it."""
        said = [{"role": each.role, "content": each.content} for each in self.before]
        return [*said, {"role": "user", "content": self.text}]


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`prompt` or `messages`, of which the last is the user's."""

    prompt: str | None = None
    messages: tuple[Message, ...] | None = None
    category: str | None = None
    answer: str | None = None


def read_prompts(path: Path, category: str) -> list[Prompt]:
    """The file's prompts; `category` is that of lines that name none. Raises UsageError."""
    try:
        data = start_of(path, LARGEST + 1)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {unread(error)}",
            hint="a .jsonl of one prompt a line, " + SHAPE,
        ) from error
    if len(data) > LARGEST:
        raise UsageError(f"{path} is over {LARGEST >> 20} MiB", hint="take a part of it")
    # Windows' editors put a mark before the first line
    lines = enumerate(data.removeprefix(BOM_UTF8).split(b"\n"), 1)
    prompts = [_prompt(path, number, line, category) for number, line in lines if line.strip()]
    if not prompts:
        raise UsageError(f"{path} holds no prompts", hint=SHAPE)
    return prompts


def _prompt(path: Path, number: int, line: bytes, category: str) -> Prompt:
    try:
        read = msgspec.json.decode(line, type=_Line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _wrong(path, number, _half(line) or str(error)) from error
    if (read.prompt is None) == (read.messages is None):
        raise _wrong(path, number, "it needs `prompt` or `messages`, and not both")
    messages = read.messages or (Message("user", read.prompt or ""),)
    *before, last = messages
    if last.role != "user" or not last.content.strip():
        raise _wrong(path, number, "the last message must be the user's, and say something")
    return Prompt(last.content, read.category or category, read.answer, tuple(before))


def _half(line: bytes) -> str | None:
    """What an escape says that is half of a character: msgspec calls such a line truncated."""
    import json

    try:
        halves = _HALF.search(json.dumps(json.loads(line), ensure_ascii=False))
    except (ValueError, RecursionError):
        return None
    return halves and f"\\u{ord(halves[0]):x} is half of a character"


def _wrong(path: Path, number: int, why: str) -> UsageError:
    return UsageError(f"{path}:{number}: {why}", hint=SHAPE)


def sample(prompts: Sequence[Prompt], limit: int | None, seed: int) -> list[Prompt]:
    """At most `limit` prompts, every category in turn, each shuffled by the seed.

    None is asked twice: a second time the prefix cache would answer.
    """
    groups: dict[str, list[Prompt]] = {}
    for prompt in prompts:
        groups.setdefault(prompt.category, []).append(prompt)
    for name in sorted(groups):
        random.Random(f"{seed} {name}").shuffle(groups[name])  # noqa: S311
    rounds = zip_longest(*(groups[name] for name in sorted(groups)))
    return [prompt for each in rounds for prompt in each if prompt is not None][:limit]


def digest(prompts: Sequence[Prompt]) -> str:
    """SHA-256 of the conversations as they are sent, in order."""
    return hashlib.sha256(msgspec.json.encode([each.messages for each in prompts])).hexdigest()
