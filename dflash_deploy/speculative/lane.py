"""How one sequence goes on behind its prompt, in caches of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from dflash_deploy.speculative.cache import KVCache
from dflash_deploy.speculative.chances import chances
from dflash_deploy.speculative.proposer import Proposer
from dflash_deploy.speculative.sampling import Chooser, Proposal
from dflash_deploy.speculative.target import Rows, Session
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
        self._sampling, self.chooser = sampling, chooser
        self._start = session.length
        self._proposal: Proposal | None = None

    def cycle(self, anchor: int, remaining: int) -> Step:
        block = self.block(anchor, remaining)
        return self.judge(self.session.forward(block, len(block)))

    @property
    def drafter(self) -> Proposer | None:
        """Who may propose for this sequence beside others."""
        shares = self._proposer is not None and self._proposer.can_share(self.chooser)
        return self._proposer if shares and self.state is not None else None

    def block(self, anchor: int, remaining: int, proposal: Proposal | None = None) -> Tensor:
        """What the target is to check in this cycle: the anchor, and a proposal behind it.

        The proposal is made here where none is given.
        """
        self._start = self.session.length
        self._proposal = None
        own = torch.tensor([anchor], device=self.chooser.generator.device)
        if self._proposer is None or self.state is None:
            return own
        if remaining == 1:
            # nothing to propose; a row beside it, since a pass of one row rounds otherwise
            return own.repeat(2)
        self._proposal = proposal or self._proposer.propose(
            self.state, anchor, remaining - 1, self.chooser
        )
        return torch.cat((own, self._proposal.tokens))

    def judge(self, seen: Rows) -> Step:
        """Commit what holds of the block, given all its rows."""
        proposal = self._proposal
        if proposal is None or self._proposer is None or self.state is None:
            self.session.crop(self._start + 1)
            token = self.chooser.choose(seen.logits[0])
            return Step((token,), chances=told(seen.logits[:1], (token,), self._sampling))
        verdict = self.chooser.verify(seen.logits, proposal)
        committed = verdict.accepted + 1
        self.session.crop(self._start + committed)
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
