"""Draft tokens by the number of requests in a step: what makes such a schedule one. Pure.

vLLM checks none of this before its scheduler is built, and fails then: 0.24.0 and 0.33.0,
v1/spec_decode/dynamic/utils.py. Gaps, and what is above the last range, carry the last number.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from dflash_deploy.schema import Span

SCHEDULE = "num_speculative_tokens_per_batch_size"
"""The key of vLLM's speculative config."""


def fault(spans: Sequence[Span], most: int | None) -> str | None:
    """What is wrong with it; `most`: draft tokens that the block has, None where unknown."""
    return next(_faults(spans, most), None)


def _faults(spans: Sequence[Span], most: int | None) -> Iterator[str]:
    if not spans:
        yield "it has no range"
    reached = 0
    for first, last, tokens in sorted(spans):
        if not reached and first != 1:
            yield f"its first range begins at {first} requests, not at 1"
        if first <= reached:
            yield f"two ranges speak of {first} requests"
        if first > last:
            yield f"a range from {first} to {last} is none"
        if tokens < 0:
            yield f"{tokens} draft tokens cannot be"
        if most is not None and tokens > most:
            yield f"{tokens} draft tokens are above the block's {most}"
        reached = last


def as_json(spans: Sequence[Span]) -> str:
    """As vLLM takes it."""
    return json.dumps([list(span) for span in spans])


def in_words(spans: Sequence[Span]) -> str:
    """`15 up to 19 requests, 7 up to 64`."""
    parts = [f"{tokens} up to {last}" for _, last, tokens in sorted(spans)]
    return ", ".join([f"{parts[0]} requests", *parts[1:]]) if parts else ""
