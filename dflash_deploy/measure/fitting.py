"""Which prompts leave no room for their answer in a server's context. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from dflash_deploy.measure.asks import Task
from dflash_deploy.measure.prompts import Prompt

AROUND = 512
"""Tokens that a chat template, and the mark before a prompt, add at most."""
STEP = 256
SHOWN = 40
"""Characters of a prompt, by which it is found again."""
FEWEST = 16
"""Tokens of an answer that is worth asking for."""

Count = Callable[[str], int]
"""Tokens of a text, without what a chat template puts around it."""


class TooLong(msgspec.Struct, frozen=True):
    tokens: int
    """At least; of token ids, exactly."""
    begins: str
    """Empty where it is like any other."""


class Room(msgspec.Struct, frozen=True):
    """One workload under a context."""

    workload: str
    prompts: int
    answer: int
    """Tokens that an answer may have."""
    context: int
    ids: bool
    too_long: tuple[TooLong, ...] = ()
    """The longest first."""
    unknown: int = 0
    """Prompts that may be too long, where nothing counts their tokens."""

    @property
    def longest(self) -> int:
        return max((each.tokens for each in self.too_long), default=0)

    @property
    def needed(self) -> int:
        """A context that has room for all of them."""
        return -(-(self.longest + self.answer + self.margin) // STEP) * STEP

    @property
    def margin(self) -> int:
        """Some releases of SGLang want one token left."""
        return 1 if self.ids else AROUND


def room_for(task: Task, context: int, count: Count | None) -> Room:
    """`count` None: no tokenizer is here. Bytes are no lower bound of tokens, since one token may
    stand for a long word; so that only an answer as long as the context is known not to fit.
    """
    answer = task.workload.max_tokens
    seen = [_least(prompt, context - answer, count) for prompt in task.prompts]
    over = [TooLong(len(ids), "") for ids in task.ids if len(ids) + answer > context]
    over += [
        TooLong(least, _begin(prompt) if answer < context else "")
        for prompt, least in zip(task.prompts, seen, strict=True)
        if least is not None and least + answer > context
    ]
    return Room(
        workload=task.workload.name, prompts=len(task.prompts) + len(task.ids), answer=answer,
        context=context, ids=bool(task.ids),
        too_long=tuple(sorted(over, key=lambda each: -each.tokens)), unknown=seen.count(None),
    )  # fmt: skip


def _least(prompt: Prompt, room: int, count: Count | None) -> int | None:
    """Tokens that it has at least; None: nobody knows whether it fits.

    No tokenizer makes more tokens of a text than it has bytes: most prompts need no counting.
    """
    texts = [message["content"] for message in prompt.messages]
    if room < 1 or sum(len(text.encode()) for text in texts) + AROUND <= room:
        return 1
    return sum(map(count, texts)) if count else None


def _begin(prompt: Prompt) -> str:
    words = " ".join(prompt.text.split())
    return words if len(words) <= SHOWN else words[: SHOWN - 3] + "..."


def said(room: Room) -> str:
    """What is wrong, in a line."""
    if room.answer >= room.context:
        return (
            f"answers of up to {room.answer} tokens leave a context of {room.context} no room for"
            f" a prompt of {room.workload}"
        )
    one = len(room.too_long) == 1
    least = "" if room.ids else "at least "
    return (
        f"{len(room.too_long)} of {room.prompts} prompts of {room.workload}"
        f" {'does' if one else 'do'} not fit a context of {room.context}: the longest has"
        f" {least}{room.longest} tokens, and its answer up to {room.answer}"
    )


def remedies(room: Room, longest: int | None) -> Iterator[str]:
    """Options that make room, the one that measures the same first.

    `longest`: the longest context that can be asked for; None: not known.
    """
    if longest is None or room.needed <= longest:
        yield f"--context {room.needed}"
    left = room.context - room.longest - room.margin
    if left >= FEWEST:
        yield f"--max-tokens {left}"
    if room.ids and room.context - room.answer > room.margin:
        yield f"--workload tokens:{room.context - room.answer - room.margin}"
    yield "--workload FILE.jsonl, of shorter prompts"
