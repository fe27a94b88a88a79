from __future__ import annotations

import pytest

from dflash_deploy.measure.pace import ROUNDS, enough, even


@pytest.mark.parametrize(("seconds", "settled"), [
    ([], False),
    ([1.0, 1.0], False),  # two alike may both hold a kernel's compilation
    ([1.0, 1.0, 1.0], True),
    ([3.0, 1.0, 1.1], False),
    ([3.0, 1.0, 1.1, 1.2], True),
    ([1.0, 1.1, 2.4], False),  # another batch size came, and stood still
    ([1.0, 1.1, 2.4, 1.0, 1.0, 1.0], True),
    ([2.0, 2.0, 2.0, 1.0], False),  # it had been slow all the time
    ([0.01, 0.02, 0.2], True),  # no kernel is compiled in that
])  # fmt: skip
def test_a_pace_is_even_once_the_last_rounds_are_as_fast_as_any(
    seconds: list[float], settled: bool
) -> None:
    assert even(seconds) is settled


def test_rounds_end_when_even_or_many_or_long() -> None:
    swinging = [1.0, 3.0] * ROUNDS
    assert not enough(swinging[: ROUNDS - 1])
    assert enough(swinging[:ROUNDS])
    assert enough([20.0, 70.0])
    assert enough([1.0, 1.0, 1.0])
