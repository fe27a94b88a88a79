"""What the draft is worth: tokens a step on prompts it never saw, and whether it changes any."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from dflash_deploy.speculative.decoder import SpeculativeDecoder
from dflash_deploy.speculative.load import load_draft
from dflash_deploy.speculative.types import Sampling, Step
from dflash_deploy.train import files
from dflash_deploy.train.chat import Chat
from dflash_deploy.train.loop import Stopped
from dflash_deploy.train.prompts import Asked
from dflash_deploy.train.recipe import Recipe

FILE = "acceptance.json"


class Acceptance(msgspec.Struct, frozen=True):
    """Over all held-out prompts, greedy."""

    acceptance_length: float
    """Tokens a step of the target, its own included."""
    by_position: list[float]
    """Of all steps, how often the first, the second ... drafted token was accepted."""
    prompts: int
    equal: int
    """How many answers equal plain decoding token for token."""
    tokens: int


def measure(
    folder: Path,
    draft: Path,
    recipe: Recipe,
    chat: Chat,
    model: Any,
    asked: Sequence[Asked],
    told: Callable[[int, int], None],
    stop: Callable[[], bool],
) -> Acceptance:
    """Decode each prompt with and without the draft. Raises Stopped."""
    file = folder / FILE
    if file.exists():
        return msgspec.json.decode(file.read_bytes(), type=Acceptance)
    decoder = SpeculativeDecoder(model, load_draft(draft))
    cycles: list[Step] = []
    equal = prompts = 0
    for number, one in enumerate(asked, 1):
        prompt = chat.prompt(one.messages)
        room = min(recipe.answer_tokens, decoder.max_context - len(prompt))
        if room >= 2:
            sampling = Sampling(room, stop_token_ids=chat.ends(model))
            steps = list(decoder.generate(prompt, sampling))
            plain = list(decoder.generate(prompt, sampling, speculate=False))
            prompts += 1
            equal += _tokens(steps) == _tokens(plain)
            cycles += [step for step in steps if step.drafted]
        told(number, len(asked))
        if stop():
            raise Stopped
    found = summed(cycles, recipe.block_size, prompts, equal)
    files.write_whole(file, msgspec.json.encode(found) + b"\n")
    return found


def summed(cycles: Sequence[Step], block: int, prompts: int, equal: int) -> Acceptance:
    count = max(1, len(cycles))
    tokens = sum(len(step.tokens) for step in cycles)
    return Acceptance(
        acceptance_length=round(tokens / count, 3),
        by_position=[
            round(sum(step.accepted > place for step in cycles) / count, 3)
            for place in range(block - 1)
        ],
        prompts=prompts, equal=equal, tokens=tokens,
    )  # fmt: skip


def _tokens(steps: Sequence[Step]) -> list[int]:
    return [token for step in steps for token in step.tokens]
