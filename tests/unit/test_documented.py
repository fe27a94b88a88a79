"""Cards by what is published, where a size is missing for an estimate."""

from __future__ import annotations

import pytest

from dflash_deploy.documented import by_parameters, documented_cards
from dflash_deploy.hardware import Hardware, parse
from dflash_deploy.registry import load

REGISTRY = load(user=False)


@pytest.mark.parametrize(
    ("model", "gpu", "cards", "why"),
    [
        ("minimax-m2.5", "H200:8", 4, "documented minimum"),
        ("minimax-m2.5", "A100-40:8", 8, "276 GB in all are the documented minimum"),
        ("glm-5.3-flash", "H200:8", 4, "the weights alone take about 306 GiB"),
        ("beam-1.0", "H200:8", 8, "the weights alone take about 933 GiB"),
        ("beam-1.0", None, 1, "nobody documented one"),
    ],
)
def test_cards(model, gpu, cards, why) -> None:
    target = REGISTRY.find(model).target
    hardware = parse(gpu, REGISTRY.gpus) if gpu else Hardware()
    number, reason, _ = documented_cards(target, target.weights[0], hardware)
    assert (number, why in reason) == (cards, True), reason


def test_parameters_in_their_type() -> None:
    target = REGISTRY.find("muse-spark").target
    assert by_parameters(target, target.weights[0]) == pytest.approx(380, abs=1)
    uncounted = REGISTRY.find("glm-5.3-flash-w4a16").target
    assert by_parameters(uncounted, uncounted.weights[0]) is None  # no count is published
