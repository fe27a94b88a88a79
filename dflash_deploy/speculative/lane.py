"""How one sequence goes on behind its prompt, in caches of its own."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor

from dflash_deploy.speculative.chances import chances
from dflash_deploy.speculative.pace import Pace
from dflash_deploy.speculative.proposer import DraftState, Proposer
from dflash_deploy.speculative.sampling import Chooser, Proposal, Verdict, agreed
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
        state: DraftState | None,
        sampling: Sampling,
        chooser: Chooser,
        pace: Pace,
    ) -> None:
        self.session, self.state, self.pace = session, state, pace
        self._proposer = proposer
        self._sampling, self.chooser = sampling, chooser
        self._start = session.length
        self._proposal: Proposal | None = None

    def cycle(self, anchor: int, remaining: int) -> Step:
        began = time.perf_counter()
        block = self.block(anchor, remaining)
        step = self.judge(self.session.forward(block, len(block)))
        seconds = time.perf_counter() - began
        # the last token's pass is wider than a plain step's: nothing is to be compared with it
        if step.drafted or len(block) == 1:
            self.pace.spent(step.drafted, len(step.tokens), seconds)
        return step

    @property
    def drafter(self) -> Proposer | None:
        """Who may propose for this sequence beside others."""
        if self._proposer is None or self.state is None or not self.pace.drafts():
            return None
        return self._proposer if self._proposer.can_share(self.chooser) else None

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
        if proposal is None:
            if not self.pace.drafts():
                return own
            proposal = self._proposer.propose(
                self.state, anchor, remaining - 1, self.chooser, self.pace
            )
        self._proposal = proposal
        return torch.cat((own, proposal.tokens))

    def judge(self, seen: Rows) -> Step:
        """Commit what holds of the block, given all its rows."""
        proposal = self._proposal
        if proposal is None or self._proposer is None or self.state is None:
            self.session.crop(self._start + 1)
            return self._plain(seen)
        verdict = self._verdict(seen, proposal)
        committed = verdict.accepted + 1
        self.session.crop(self._start + committed)
        if seen.features is not None:
            self._proposer.commit(self.state, seen.features, committed)
        tokens = (*proposal.tokens[: verdict.accepted].tolist(), verdict.token)
        spoken = told(seen, tokens, self._sampling)
        return Step(tokens, len(proposal.tokens), verdict.accepted, spoken)

    def judge_shared(self, seen: Rows) -> Step:
        """`judge` for a pass of several sequences: its time says nothing of one's cycles."""
        step = self.judge(seen)
        self.pace.spent(step.drafted, len(step.tokens), None)
        return step

    def _plain(self, seen: Rows) -> Step:
        """The target's own token, by the first row."""
        token = chosen(self.chooser, seen)
        step = Step((token,), chances=told(seen, (token,), self._sampling))
        features = seen.features
        if self._proposer is None or self.state is None or features is None or len(features) > 1:
            return step
        self._proposer.keep(self.state, features)
        return replace(step, declined=True)

    def _verdict(self, seen: Rows, proposal: Proposal) -> Verdict:
        if self.chooser.greedy:
            return agreed(seen.best, proposal)
        return self.chooser.verify(seen.logits, proposal)

    def close(self) -> None:
        """Nothing: the caches go with the lane."""


def chosen(chooser: Chooser, seen: Rows) -> int:
    """The target's own token, by the first row."""
    return int(seen.best[0]) if chooser.greedy else chooser.choose(seen.logits[0])


def told(seen: Rows, tokens: Sequence[int], sampling: Sampling) -> tuple[Chance, ...]:
    """The log-probabilities that were asked for, of tokens by the first rows."""
    if sampling.logprobs is None:
        return ()
    return chances(seen.logits[: len(tokens)], tokens, sampling.logprobs)
