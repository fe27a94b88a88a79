"""What the server and the draft-verify loop say to each other; imports no torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Sampling:
    """How one sequence is decoded. `temperature` 0 is greedy; `top_k` 0 and `top_p` 1 are off."""

    max_new_tokens: int
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    stop_token_ids: frozenset[int] = frozenset()
    logprobs: int | None = None
    """How many of the likeliest tokens to tell in each place; None: no log-probabilities."""


@dataclass(frozen=True)
class Chance:
    """A token's log-probability, and the likeliest tokens in its place, best first."""

    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True)
class Step:
    """One draft-verify cycle: the tokens it committed, in order (1 to block size).

    `drafted` counts the draft tokens proposed and `accepted` those the target agreed with; both are
    0 for the first token of a sequence (prefill) and for plain decoding.
    A stop token is the last of `tokens` when it ended the sequence.
    """

    tokens: tuple[int, ...]
    drafted: int = 0
    accepted: int = 0
    chances: tuple[Chance, ...] = ()
    """One for each token, where `Sampling.logprobs` asks for them."""
    declined: bool = False
    """A plain step of a sequence that has a draft, made because drafting did not pay."""


class Decoder(Protocol):
    """One loaded target, with or without its draft. Sequences are independent generators.

    Steps of several sequences may be interleaved by calling `next` on one and then on another, from
    one thread; closing a generator frees its caches.
    """

    @property
    def max_context(self) -> int:
        """Prompt and answer together, in tokens."""

    @property
    def block_size(self) -> int:
        """Tokens a cycle can commit at most; 1 without a draft."""

    def generate(
        self, prompt_ids: Sequence[int], sampling: Sampling, *, speculate: bool = True
    ) -> Iterator[Step]:
        """Decode one sequence. Raises ValueError if prompt plus answer exceed `max_context`."""

    def together(self, sequences: Sequence[Iterator[Step]]) -> list[Step | Exception | None]:
        """The next step of each of `generate`'s sequences, at once where that is cheaper.

        In place of a step: None for a sequence that has ended, an exception for one that failed.
        """
