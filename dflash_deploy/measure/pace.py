"""Whether a server answers at an even pace yet, or is still compiling for what it meets. Pure."""

from __future__ import annotations

from collections.abc import Sequence

ROUNDS = 12
"""At most, of requests that do not count."""
IN_A_ROW = 3
ALIKE = 1.3
"""Acceptance alone makes short rounds differ by a tenth and two."""
UNFELT = 0.25
"""Seconds: kernels take longer to compile, and in short rounds so much is noise."""
LONGEST = 60.0
"""Seconds of rounds at one load, after which no further one begins."""
COMPILING = frozenset({"vllm", "sglang"})
"""Engines whose kernels are compiled when a batch of another size first comes. vLLM 0.26.0 with a
mixture of experts stood still for 1 to 3 s so, many times at each load (docs/benchmark.md)."""


def even(seconds: Sequence[float]) -> bool:
    """Whether the last rounds took about as long as the fastest: one alike may be chance."""
    last = seconds[-IN_A_ROW:]
    return len(last) == IN_A_ROW and max(last) <= max(min(seconds) * ALIKE, min(seconds) + UNFELT)


def enough(seconds: Sequence[float]) -> bool:
    """Whether no further round is worth its time."""
    return even(seconds) or len(seconds) >= ROUNDS or sum(seconds) >= LONGEST
