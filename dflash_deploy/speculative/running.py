"""One sequence on its way: its prompt, then a cycle a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from dflash_deploy.speculative.lane import Lane, OwnCaches
from dflash_deploy.speculative.proposer import Proposer, Wanted
from dflash_deploy.speculative.sampling import Proposal
from dflash_deploy.speculative.target import Rows, Session
from dflash_deploy.speculative.types import Sampling, Step


class Running(Iterator[Step]):
    """One sequence. Its first step reads the prompt; the others are a cycle each."""

    def __init__(self, begin: Callable[[], tuple[Lane, Step]], sampling: Sampling) -> None:
        self._begin = begin
        self._sampling = sampling
        self._remaining = sampling.max_new_tokens
        self._last = 0
        self.lane: Lane | None = None
        self._ended = False

    def __next__(self) -> Step:
        if self._ended:
            raise StopIteration
        try:
            # inference mode may not be held between steps: the caller's code would run inside it
            with torch.inference_mode():
                if self.lane is None:
                    self.lane, step = self._begin()
                else:
                    step = self.lane.cycle(self._last, self._remaining)
        except BaseException:
            self.close()
            raise
        return self.took(step)

    @property
    def can_share(self) -> bool:
        """Whether the next step is a cycle whose pass may be another's as well."""
        return isinstance(self.lane, OwnCaches)

    @property
    def drafter(self) -> Proposer | None:
        """Who may propose for it beside others; None where it proposes by itself, or nothing."""
        return self._shared.drafter if self._remaining > 1 else None

    def draft(self) -> Wanted | None:
        """What its proposal stands on."""
        lane = self._shared
        if lane.state is None:
            return None
        return lane.state, self._last, self._remaining - 1, lane.pace

    def block(self, proposal: Proposal | None = None) -> Tensor:
        """The next cycle's rows, for who runs its pass."""
        return self._shared.block(self._last, self._remaining, proposal)

    def judge(self, seen: Rows) -> Step:
        """The rest of a cycle whose pass said this."""
        return self.took(self._shared.judge_shared(seen))

    @property
    def session(self) -> Session:
        return self._shared.session

    @property
    def _shared(self) -> OwnCaches:
        if not isinstance(self.lane, OwnCaches):
            raise TypeError("this sequence's next step is no cycle that can be shared")
        return self.lane

    def took(self, step: Step) -> Step:
        """Count a step, cut behind a stop token; the sequence ends where there is nothing left."""
        step = until_stop(step, self._sampling.stop_token_ids)
        self._last = step.tokens[-1]
        self._remaining -= len(step.tokens)
        if self._remaining == 0 or self._last in self._sampling.stop_token_ids:
            self.close()
        return step

    def close(self) -> None:
        """End it here and give back what it holds."""
        self._ended = True
        lane, self.lane = self.lane, None
        if lane is not None:
            with torch.inference_mode():
                lane.close()


def until_stop(step: Step, stops: frozenset[int]) -> Step:
    for index, token in enumerate(step.tokens):
        if token in stops:
            kept = index + 1
            accepted = min(step.accepted, kept)
            return replace(
                step, tokens=step.tokens[:kept], accepted=accepted, chances=step.chances[:kept]
            )
    return step
