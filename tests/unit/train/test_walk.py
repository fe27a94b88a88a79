"""A walk through a known answer has the cycles of the decoder that wrote it."""

from __future__ import annotations

import pytest
import torch

from dflash_deploy.speculative import SpeculativeDecoder
from dflash_deploy.speculative.model import DraftModel
from dflash_deploy.speculative.model2 import DraftModel2
from dflash_deploy.speculative.types import Sampling
from dflash_deploy.train import walk
from dflash_deploy.train.blocks import Answer
from dflash_deploy.train.draft import Draft, fresh
from tests.unit.speculative import tiny
from tests.unit.train import small


@pytest.mark.parametrize("rank", [0, 6])
def test_the_same_cycles_as_decoding(monkeypatch, rank):
    # in 8 bits the draft now and then says something else
    monkeypatch.setattr("dflash_deploy.speculative.proposer.can_round", lambda _: False)
    target = tiny.target_model()
    config = small.config(target, small.recipe(selector_rank=rank))
    frozen = small.frozen(target)
    tensors = small.stirred(fresh(config, frozen.final_norm(), seed=1))
    draft = Draft(config, tensors, torch.ones(len(config.target_layer_ids)))
    decoder = SpeculativeDecoder(target, (DraftModel2 if rank else DraftModel)(config, tensors))
    seen = set()
    for seed in range(6):
        chance = torch.Generator().manual_seed(seed)
        prompt = torch.randint(4, 40, (6,), generator=chance).tolist()
        steps = list(decoder.generate(prompt, Sampling(30)))
        said = tiny.tokens(steps)
        answer = Answer(seed, prompt + said, [0] * 6 + [1] * 30)
        [found] = walk.walked(draft, frozen, [answer], 512)
        decoded = [step.accepted for step in steps[1:]]
        # the decoder drafts nothing where one token is left
        assert list(found.accepted) == decoded
        assert found.tokens == 29
        seen |= set(decoded)
    assert len(seen) > 1


def test_what_was_committed_is_not_drafted_again():
    assert list(walk.cycles([2, 9, 9, 0, 1, 9, 9])) == [2, 0, 1]
    assert list(walk.cycles([0, 7])) == [0]
    assert list(walk.cycles([3])) == []
