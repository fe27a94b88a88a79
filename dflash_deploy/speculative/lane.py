"""How one sequence goes on behind its prompt, in caches of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from dflash_deploy.speculative.cache import KVCache
from dflash_deploy.speculative.chances import chances
from dflash_deploy.speculative.proposer import Proposer
from dflash_deploy.speculative.sampling import Chooser
from dflash_deploy.speculative.target import Session
from dflash_deploy.speculative.types import Chance, Sampling, Step


class Lane(Protocol):
    """One sequence between two cycles."""

    def cycle(self, anchor: int, remaining: int) -> Step:
        """Commit at most `remaining` tokens behind `anchor`, the last token committed."""

    def close(self) -> None:
        """Give back what the sequence holds."""


class OwnCaches:
    """A lane on a target's session and, where it speculates, on a draft's cache."""

    def __init__(
        self,
        session: Session,
        proposer: Proposer | None,
        state: KVCache | None,
        sampling: Sampling,
        chooser: Chooser,
    ) -> None:
        self.session, self.state = session, state
        self._proposer = proposer
        self._sampling, self._chooser = sampling, chooser

    def cycle(self, anchor: int, remaining: int) -> Step:
        session, chooser = self.session, self._chooser
        own = torch.tensor([anchor], device=chooser.generator.device)
        if self._proposer is None or self.state is None or remaining == 1:
            logits = session.forward(own, 1).logits
            token = chooser.choose(logits[-1])
            return Step((token,), chances=told(logits, (token,), self._sampling))
        proposal = self._proposer.propose(self.state, anchor, remaining - 1, chooser)
        start = session.length
        block = torch.cat((own, proposal.tokens))
        seen = session.forward(block, len(block))
        verdict = chooser.verify(seen.logits, proposal)
        committed = verdict.accepted + 1
        session.crop(start + committed)
        if seen.features is not None:
            self._proposer.commit(self.state, seen.features, committed)
        tokens = (*proposal.tokens[: verdict.accepted].tolist(), verdict.token)
        spoken = told(seen.logits[:committed], tokens, self._sampling)
        return Step(tokens, len(proposal.tokens), verdict.accepted, spoken)

    def close(self) -> None:
        """Nothing: the caches go with the lane."""


def told(logits: Tensor, tokens: Sequence[int], sampling: Sampling) -> tuple[Chance, ...]:
    """The log-probabilities that were asked for."""
    return () if sampling.logprobs is None else chances(logits, tokens, sampling.logprobs)
