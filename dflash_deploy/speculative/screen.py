"""The best token of each row, looked for in 8 bits and settled in single precision.

How far the rounding moved each token's weight w to w' is known, and so is how far it may move a
logit: |(w - w').x| <= |w - w'| |x|. Most tokens are thereby out of the question, for a quarter of
the bytes of the head. Of the few that are not, often a dozen in 49,152, the logits are computed.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from dflash_deploy.speculative.best import PART, best_tokens
from dflash_deploy.speculative.rounded import FINE, TINY, can_round, pack, rounded, steps

# of what is summed in single precision, in lengths of the vectors: far more than it comes to
ROUNDING = 1e-4
# candidates that are computed one by one; if there are more, all of the head is
MOST = 4096


def can_screen(weight: Tensor) -> bool:
    return can_round(weight) and weight.shape[0] % PART == 0


class Screen:
    """Finds `(x @ weight.T).argmax(-1)` without computing most of it."""

    def __init__(self, weight: Tensor, fineness: int | None = None) -> None:
        self._weight = weight
        # activations are made whole multiples of the kernel's steps, so that it rounds none
        self._steps = steps() if fineness is None else fineness
        # two columns that hold the ends of the kernel's range in place, against weights of zero
        weights = rounded(torch.cat((weight, weight.new_zeros(len(weight), 2)), dim=1))
        lost = (weight - weights.dequantize()[:, :-2]).norm(dim=1)
        inexact = math.sqrt(weight.shape[1]) / self._steps**2 + ROUNDING
        self._margin = lost + inexact * weight.norm(dim=1)
        # the kernel adds it to both digits
        self._packed = pack(weights, self._margin / (1 + 1 / self._steps))
        self._ends = weight.new_tensor([[1.0, -1.0]])

    def __call__(self, x: Tensor) -> Tensor | None:
        """The best token for each of x [rows, in]; None if too many may be it, or none."""
        highest = self._highest(x / x.norm(dim=1, keepdim=True).clamp_(min=TINY))
        leaders = best_tokens(highest)
        peaks = highest.gather(1, leaders[:, None])[:, 0]
        # no token whose logit cannot reach this is the best
        least = peaks - 2 * self._margin[leaders]
        rows, tokens = _reaching(highest, least)
        if not 0 < len(tokens) <= MOST:
            return None
        logits = (self._weight[tokens] * x[rows]).sum(-1)
        by_row = torch.full_like(x[:, :1], -math.inf).repeat(1, len(tokens))
        by_row[rows, torch.arange(len(tokens))] = logits
        return tokens[by_row.argmax(-1)]

    def _highest(self, x: Tensor) -> Tensor:
        """What each logit of x, of length 1, may be at most: in two digits of 8 bits."""
        steps, most = self._steps, self._steps // 2
        high = (x * (steps / 2)).round_().clamp_(-most, most).mul_(2 / steps)
        low = (x - high).mul_(steps).clamp_(-1, 1)
        digits = torch.cat((torch.cat((high, low)), self._ends.expand(2 * len(x), 2)), dim=1)
        product: Tensor = torch.ops.quantized.linear_dynamic(
            digits, self._packed, reduce_range=steps < FINE
        )
        return product[: len(x)].add_(product[len(x) :], alpha=1 / steps)


def _reaching(highest: Tensor, least: Tensor) -> tuple[Tensor, Tensor]:
    """Rows and tokens of what is at least `least` [rows], first by parts of the vocabulary."""
    parts = highest.unflatten(-1, (-1, PART))
    rows, part = (parts.amax(-1) >= least[:, None]).nonzero().unbind(1)
    place, inside = (parts[rows, part] >= least[rows, None]).nonzero().unbind(1)
    return rows[place], part[place] * PART + inside
