"""A random Llama with a handful of answers it wrote, and a recipe of a few steps."""

from __future__ import annotations

import torch

from dflash_deploy.speculative.config import parse_config
from dflash_deploy.train.blocks import Answer
from dflash_deploy.train.frozen import Frozen
from dflash_deploy.train.recipe import Recipe, taps
from dflash_deploy.train.save import config_json
from tests.unit.speculative import tiny

MASK = 3


def recipe(**changed) -> Recipe:
    values = {
        "target": "org/tiny", "model": "org/tiny", "draft": "me/tiny-DFlash", "layers": 2,
        "block_size": 4, "steps": 20, "batch": 4, "anchors": 8, "length": 48,
        "learning_rate": 0.02, "seed": 5,
    }  # fmt: skip
    return Recipe(**values | changed)


def config(model, plan: Recipe):
    return parse_config(config_json(model.config, plan, MASK), "config.json")


def frozen(model) -> Frozen:
    return Frozen(model, taps(model.config.num_hidden_layers))


def answers(model, count: int = 8, length: int = 40) -> list[Answer]:
    chance = torch.Generator().manual_seed(0)
    made = []
    for index in range(count):
        prompt = torch.randint(4, 40, (3 + index % 3,), generator=chance).tolist()
        answer = tiny.generated(model, prompt, length)
        made.append(Answer(index, prompt + answer, [0] * len(prompt) + [1] * len(answer)))
    return made
