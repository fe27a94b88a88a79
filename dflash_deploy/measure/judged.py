"""Whether what `lossless` saw is numerics or a bug. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dflash_deploy.measure.lossless import (
    NEAR_TIE,
    Answer,
    Divergence,
    first_divergence,
    loops,
)


class Compared(msgspec.Struct, frozen=True):
    """One prompt's two answers at temperature 0."""

    prompt: str
    divergence: Divergence | None
    plain_loops: bool
    dflash_loops: bool


class Judgement(msgspec.Struct, frozen=True):
    prompts: int
    exact: int
    near_ties: tuple[Compared, ...]
    costly: tuple[Compared, ...]
    """Diverged where the target was not in doubt."""
    untold: tuple[Compared, ...]
    """Diverged, and nobody can tell what it cost."""
    loops: tuple[Compared, ...]
    """DFlash went round in circles where plain decoding did not."""

    @property
    def passed(self) -> bool:
        """A gate that saw nothing, or cannot tell, does not pass."""
        return self.prompts > 0 and not (self.costly or self.untold or self.loops)

    @property
    def exact_rate(self) -> float | None:
        return self.exact / self.prompts if self.prompts else None


def compare(prompt: str, plain: Answer, dflash: Answer) -> Compared:
    return Compared(prompt, first_divergence(plain, dflash), loops(plain.text), loops(dflash.text))


def judge(seen: Sequence[Compared], *, max_regret: float = NEAR_TIE) -> Judgement:
    """`max_regret`: the most, in nats, that a first divergence may cost."""
    apart = [(one, one.divergence) for one in seen if one.divergence is not None]
    told = [(one, divergence.within(max_regret)) for one, divergence in apart]
    return Judgement(
        prompts=len(seen),
        exact=len(seen) - len(apart),
        near_ties=tuple(one for one, near in told if near is True),
        costly=tuple(one for one, near in told if near is False),
        untold=tuple(one for one, near in told if near is None),
        loops=tuple(one for one in seen if one.dflash_loops and not one.plain_loops),
    )
