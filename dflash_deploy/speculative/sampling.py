"""Distributions of the target, and the rule that keeps them exact under speculation."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

import torch
from torch import Tensor

from dflash_deploy.speculative.best import best_tokens
from dflash_deploy.speculative.types import Sampling

# top-p looks at this many of the likeliest tokens before it sorts the whole vocabulary
NUCLEUS_GUESS = 256
COLDEST = 1e-5


@dataclass(frozen=True)
class Proposal:
    """Draft tokens, and for a sampled draft the distribution each was drawn from.

    `peaks` [tokens] is the chance that the draft gives to its best token. `support` and `weights`
    are [tokens, candidates]: ids and their probabilities. They are None for a draft that always
    proposes its best token.
    """

    tokens: Tensor
    peaks: Tensor
    support: Tensor | None = None
    weights: Tensor | None = None

    def first(self, count: int) -> Proposal:
        """The same for the first `count` tokens alone."""
        return Proposal(
            self.tokens[:count],
            self.peaks[:count],
            None if self.support is None else self.support[:count],
            None if self.weights is None else self.weights[:count],
        )


@dataclass(frozen=True)
class Verdict:
    """How many draft tokens stand, and the target's own token behind them."""

    accepted: int
    token: int


class Chooser:
    """One sequence's rule for choosing tokens, with its own random numbers."""

    def __init__(self, sampling: Sampling, device: torch.device) -> None:
        self._sampling = sampling
        self.generator = torch.Generator(device=device)
        seed = secrets.randbits(63) if sampling.seed is None else sampling.seed
        self.generator.manual_seed(seed)

    @property
    def greedy(self) -> bool:
        """Also for temperatures at which single precision leaves only one token."""
        return self._sampling.temperature < COLDEST

    @property
    def temperature(self) -> float:
        return self._sampling.temperature

    def choose(self, logits: Tensor) -> int:
        """One token from logits [vocab]."""
        if self.greedy:
            return int(logits.argmax())
        return self._draw(distribution(logits, self._sampling))

    def verify(self, logits: Tensor, proposal: Proposal) -> Verdict:
        """Judge k proposed tokens by the target's logits [k + 1, vocab]."""
        if self.greedy:
            return agreed(best_tokens(logits), proposal)
        count = proposal.tokens.shape[0]
        for index in range(count):
            target = distribution(logits[index], self._sampling)
            draft = _dense(proposal, index, target)
            token = int(proposal.tokens[index])
            if self._uniform() * float(draft[token]) < float(target[token]):
                continue
            # rejected: what the target has more of than the draft, and nothing else
            rest = (target - draft).clamp_min_(0)
            total = rest.sum()
            # equal up to rounding: a rejection there has probability zero, the target decides
            return Verdict(index, self._draw(rest if total > 0 else target))
        return Verdict(count, self._draw(distribution(logits[count], self._sampling)))

    def _draw(self, weights: Tensor) -> int:
        return int(torch.multinomial(weights, 1, generator=self.generator))

    def _uniform(self) -> float:
        device = self.generator.device
        return float(torch.rand((), generator=self.generator, dtype=torch.float64, device=device))


def distribution(logits: Tensor, sampling: Sampling) -> Tensor:
    """Probabilities [vocab] after temperature, then top-k, then top-p."""
    scaled = logits.float() / sampling.temperature
    if 0 < sampling.top_k < scaled.shape[-1]:
        least = scaled.topk(sampling.top_k).values[-1]
        scaled = scaled.masked_fill(scaled < least, float("-inf"))
    weights = scaled.softmax(-1)
    return _nucleus(weights, sampling.top_p) if sampling.top_p < 1 else weights


def _nucleus(weights: Tensor, top_p: float) -> Tensor:
    """Keep the fewest likeliest tokens whose probabilities reach `top_p`."""
    values, indices = weights.topk(min(NUCLEUS_GUESS, weights.shape[-1]))
    if float(values.sum()) < top_p:
        values, indices = weights.sort(descending=True)
    before = values.cumsum(-1) - values
    kept = values.masked_fill(before >= top_p, 0)
    kept[0] = values[0]  # the likeliest stays, whatever top_p
    return torch.zeros_like(weights).scatter_(0, indices, kept / kept.sum())


def agreed(best: Tensor, proposal: Proposal) -> Verdict:
    """Judge k proposed tokens greedily, by the target's best tokens [k + 1]."""
    wanted = best.tolist()
    accepted = 0
    for token, own in zip(proposal.tokens.tolist(), wanted, strict=False):
        if token != own:
            break
        accepted += 1
    return Verdict(accepted, wanted[accepted])


def _dense(proposal: Proposal, index: int, like: Tensor) -> Tensor:
    dense = torch.zeros_like(like)
    if proposal.support is None or proposal.weights is None:
        dense[proposal.tokens[index]] = 1
        return dense
    return dense.scatter_(0, proposal.support[index], proposal.weights[index].to(dense.dtype))
