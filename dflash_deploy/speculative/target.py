"""What the draft-verify loop needs of a target, whichever code runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, Self

import torch
from torch import Tensor

from dflash_deploy.errors import Unsupported
from dflash_deploy.speculative.best import best_tokens


@dataclass(frozen=True)
class TargetShape:
    """The facts of a target that a draft has to fit."""

    hidden_size: int
    layers: int
    vocab_size: int
    max_context: int


class Said:
    """What a head says of final hidden states [rows, hidden_size]: when it is asked, and once.

    `screen` knows the best tokens without all the logits, or says None.
    """

    def __init__(
        self,
        hidden: Tensor,
        head: Callable[[Tensor], Tensor],
        screen: Callable[[Tensor], Tensor | None] | None = None,
    ) -> None:
        self._hidden, self._head, self._screen = hidden, head, screen

    @cached_property
    def logits(self) -> Tensor:
        """Of all tokens, [rows, vocab]."""
        return self._head(self._hidden)

    @cached_property
    def best(self) -> Tensor:
        """The best token of each row."""
        found = None if self._screen is None else self._screen(self._hidden)
        return best_tokens(self.logits) if found is None else found


@dataclass(frozen=True)
class Rows:
    """What one forward pass says: of its last rows, or a part of them, and every row's features.

    `features` is [rows, taps * hidden_size], the outputs of the tapped layers side by side.
    """

    said: Said
    features: Tensor | None
    part: slice = field(default_factory=lambda: slice(None))

    @classmethod
    def given(cls, logits: Tensor, features: Tensor | None = None) -> Self:
        """Where the logits are there already."""
        return cls(Said(logits, lambda rows: rows), features)

    @property
    def logits(self) -> Tensor:
        return self.said.logits[self.part]

    @property
    def best(self) -> Tensor:
        """The best token of each row, [rows]: cheaper than all their logits."""
        return self.said.best[self.part]


class Session(Protocol):
    """One sequence in one target."""

    @property
    def length(self) -> int:
        """Positions stored."""

    def forward(self, ids: Tensor, logits: int) -> Rows:
        """Append ids [rows]; return the logits of the last `logits` rows."""

    def crop(self, length: int) -> None:
        """Forget every position from `length` on."""


class Target(Protocol):
    """A causal language model that shows its hidden states and lends its embedding and head."""

    shape: TargetShape
    dtype: torch.dtype
    device: torch.device

    def embed(self, ids: Tensor) -> Tensor:
        """Embeddings [rows, hidden_size] of ids [rows]."""

    def head(self, hidden: Tensor) -> Tensor:
        """Logits [rows, vocab_size] of final hidden states [rows, hidden_size]."""

    def head_weight(self) -> Tensor:
        """The head's weight [vocab_size, hidden_size]."""

    def prepare(self, widths: Sequence[int]) -> None:
        """Get ready for blocks of these numbers of rows."""

    def open(self, capacity: int, taps: Sequence[int]) -> Session:
        """Start a sequence of at most `capacity` positions that shows these layers' outputs."""


def shape_of(config: Any) -> TargetShape:
    """Read a transformers config. Raises Unsupported where a needed field is missing."""
    config = config.get_text_config()
    try:
        return TargetShape(
            hidden_size=config.hidden_size,
            layers=config.num_hidden_layers,
            vocab_size=config.vocab_size,
            max_context=config.max_position_embeddings,
        )
    except AttributeError as error:
        kind = getattr(config, "model_type", "?")
        raise Unsupported(
            f"a target of type {kind!r} does not say its {error.name}; it cannot be served here"
        ) from error
