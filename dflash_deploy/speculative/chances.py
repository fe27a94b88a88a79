"""What the target gave the tokens that were committed, and the likeliest in their places."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from dflash_deploy.speculative.types import Chance


def chances(logits: Tensor, tokens: Sequence[int], top: int) -> tuple[Chance, ...]:
    """One for each token, from the logits [tokens, vocab] that it was chosen by.

    Before temperature, top-k and top-p: what the model thinks, not how it was asked to sample.
    """
    logprobs = logits.float().log_softmax(-1)
    values, ids = logprobs.topk(min(top, logprobs.shape[-1]), dim=-1)
    rows = zip(tokens, logprobs, ids.tolist(), values.tolist(), strict=True)
    return tuple(
        Chance(float(row[token]), tuple(zip(likely, theirs, strict=True)))
        for token, row, likely, theirs in rows
    )
