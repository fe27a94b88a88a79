"""How many cards a target takes by what is published of it, where no estimate can be made. Pure."""

from __future__ import annotations

import re

from dflash_deploy.hardware import Hardware
from dflash_deploy.schema import Minimum, Target, Weights

GB = 2**30 / 10**9
NO_MINIMUM = Minimum(tensor_parallel=1, source="nobody documented one")
ROOM = 0.85
"""Of the cards' memory, what weights may take: the rest is for a pass, a cache and the draft."""
BITS = {"bf16": 16, "fp8": 8, "fp4": 4, "nvfp4": 4, "mxfp4": 4, "int4": 4, "w4a16": 4}
_COUNT = re.compile(r"(\d+(?:\.\d+)?)([BT])")


def documented_cards(
    target: Target, weights: Weights, hardware: Hardware
) -> tuple[int, str, str | None]:
    """A power of two times the documented number, the reason, and its source."""
    minimum, card = target.minimum or NO_MINIMUM, hardware.memory_gib
    cards = minimum.tensor_parallel
    if minimum.memory_gb:
        # published minimums are in GB, cards in GiB
        while card and cards * card * GB < minimum.memory_gb:
            cards *= 2
        if cards > minimum.tensor_parallel:
            why = f"{minimum.memory_gb} GB in all are the documented minimum ({minimum.source})"
            return cards, why, minimum.source
    elif card and (size := weights.in_memory or by_parameters(target, weights)):
        while cards * card * ROOM < size:
            cards *= 2
        if cards > minimum.tensor_parallel:
            return cards, f"the weights alone take about {size:.0f} GiB", None
    return cards, f"documented minimum ({minimum.source})", minimum.source


def by_parameters(target: Target, weights: Weights) -> float | None:
    """GiB at least, by the count in the target's name and the bits of its weights."""
    count, bits = _COUNT.fullmatch(target.parameters or ""), BITS.get(weights.name)
    if count is None or bits is None:
        return None
    return float(count[1]) * {"B": 1e9, "T": 1e12}[count[2]] * bits / 8 / 2**30
