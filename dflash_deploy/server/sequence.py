"""One request on its way through the decode thread: steps in, text and counts out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from dflash_deploy.server.api_error import ApiError
from dflash_deploy.server.detokenize import Detokenizer, StopStrings
from dflash_deploy.server.origins import Origins, Span
from dflash_deploy.speculative.types import Chance, Decoder, Sampling, Step

FinishReason = Literal["stop", "length"]


@dataclass(frozen=True)
class Job:
    """What a request asks of the decoder, after every check."""

    request_id: str
    prompt_ids: tuple[int, ...]
    sampling: Sampling
    stops: tuple[str, ...] = ()
    speculate: bool = True


@dataclass(frozen=True)
class Report:
    """What one finished request cost. Times are seconds on the wall clock, other requests' turns
    included: `first_token` from arrival (the queue too), `decode` from the first token to the last.

    `accepted_by_step[j]` counts the draft-verify cycles that accepted j draft tokens.
    """

    finish_reason: FinishReason
    prompt_tokens: int
    completion_tokens: int
    drafted: int
    accepted: int
    accepted_by_step: tuple[int, ...]
    first_token: float
    decode: float

    @property
    def spec_steps(self) -> int:
        return sum(self.accepted_by_step)

    @property
    def mean_acceptance_length(self) -> float:
        """Tokens a cycle committed on average, with the target's own one."""
        return 1 + self.accepted / self.spec_steps if self.spec_steps else 1.0


@dataclass(frozen=True)
class Chunk:
    """One cycle's worth of answer; the last one of a sequence carries its report.

    `spans` is `text` once more, cut where the draft's tokens end and the target's own begin.
    """

    text: str
    token_ids: tuple[int, ...]
    step: Step
    report: Report | None = None
    spans: tuple[Span, ...] = ()

    @property
    def chances(self) -> tuple[Chance, ...]:
        return self.step.chances[: len(self.token_ids)]


Post = Callable[[Chunk | ApiError], None]


class RequestState:
    """A job and how far it is. Only the decode thread advances it; any thread may give it up."""

    def __init__(self, job: Job, decode: Callable[[Sequence[int]], str], post: Post) -> None:
        self.job = job
        self.post = post
        self.abandoned = False
        self.arrived = time.perf_counter()
        self._detokenizer = Detokenizer(decode)
        self._stops = StopStrings(job.stops)
        self._origins = Origins()
        self._steps: Iterator[Step] | None = None
        self._first_token = 0.0
        self._count = self._drafted = self._accepted = 0
        self._accepted_by_step: list[int] = []

    def steps(self, decoder: Decoder) -> Iterator[Step]:
        """Its sequence in the decoder, begun at the first call. What that raises comes through."""
        if self._steps is None:
            job = self.job
            self._steps = decoder.generate(job.prompt_ids, job.sampling, speculate=job.speculate)
            self._accepted_by_step = [0] * decoder.block_size
        return self._steps

    def take(self, step: Step | None) -> Chunk:
        """The answer's next part, of one cycle; None: the sequence has ended."""
        if step is None:  # the decoder ended by itself, short of the limit
            return self._chunk((), [self._rest()], Step(()), "length")
        if not self._first_token:
            self._first_token = time.perf_counter() - self.arrived
        self._add(step)
        return self._read_step(step)

    def close(self) -> None:
        """Free the sequence's caches."""
        close = getattr(self._steps, "close", None)
        if close is not None:
            close()

    def _add(self, step: Step) -> None:
        if step.drafted:
            self._drafted += step.drafted
            self._accepted += step.accepted
            self._accepted_by_step[step.accepted] += 1

    def _read_step(self, step: Step) -> Chunk:
        kept = 0
        pieces: list[str] = []
        reason: FinishReason | None = None
        for token in step.tokens:
            kept += 1
            if token in self.job.sampling.stop_token_ids:
                reason = "stop"
            else:
                # the draft's accepted tokens come first; the last of a step is the target's
                text = self._read(token, drafted=kept <= step.accepted)
                pieces.append(self._stops.push(text))
                if self._stops.hit:
                    reason = "stop"
                elif self._count + kept == self.job.sampling.max_new_tokens:
                    reason = "length"
            if reason is not None:
                pieces.append(self._rest())
                break
        if self._stops.hit:  # perhaps only in the text that was held back
            reason = "stop"
        return self._chunk(step.tokens[:kept], pieces, step, reason)

    def _read(self, token: int, *, drafted: bool) -> str:
        text = self._detokenizer.push(token)
        self._origins.push(drafted=drafted, shares=self._detokenizer.shares)
        return text

    def _rest(self) -> str:
        if self._stops.hit:
            return ""
        held = self._detokenizer.flush()
        self._origins.settle(self._detokenizer.shares)
        return self._stops.push(held) + self._stops.flush()

    def _chunk(
        self,
        tokens: tuple[int, ...],
        pieces: list[str],
        step: Step,
        reason: FinishReason | None,
    ) -> Chunk:
        self._count += len(tokens)
        report = None if reason is None else self._report(reason)
        text = "".join(pieces)
        return Chunk(text, tokens, step, report, self._origins.take(text))

    def _report(self, reason: FinishReason) -> Report:
        return Report(
            finish_reason=reason,
            prompt_tokens=len(self.job.prompt_ids),
            completion_tokens=self._count,
            drafted=self._drafted,
            accepted=self._accepted,
            accepted_by_step=tuple(self._accepted_by_step),
            first_token=self._first_token,
            decode=time.perf_counter() - self.arrived - self._first_token,
        )
