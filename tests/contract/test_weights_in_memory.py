"""What the registry says an engine loads, against the layers of the models themselves."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

from dflash_deploy.registry import load
from tests.contract.engine_cases import FIXTURES

BF16 = 2
GIB = 2**30
LOADED = [
    entry for entry in load(user=False).entries.values()
    if entry.target.weights[0].loaded_gib and entry.target.weights[0].name == "bf16"
]  # fmt: skip


@pytest.mark.parametrize("entry", LOADED, ids=lambda entry: entry.name)
def test_bf16_weights_are_the_parameters_of_the_layers(entry) -> None:
    """Without the layers for multi-token prediction, which DFlash has no use for."""
    config = AutoConfig.from_pretrained(FIXTURES / entry.id)
    sees = "ConditionalGeneration" in config.architectures[0]
    kind = AutoModelForImageTextToText if sees else AutoModelForCausalLM
    with torch.device("meta"):
        model = kind.from_config(config)
    parameters = sum(each.numel() for each in model.parameters())
    weights = entry.target.weights[0]
    assert weights.loaded_gib == pytest.approx(parameters * BF16 / GIB, rel=0.001)
    assert weights.gib is None or weights.gib > weights.loaded_gib
