"""What is trained is what is served: block by block the same as the engine's own draft."""

from __future__ import annotations

import pytest
import torch

from dflash_deploy.speculative.load import load_draft
from dflash_deploy.speculative.model import DraftModel
from dflash_deploy.speculative.model2 import DraftModel2
from dflash_deploy.train import save
from dflash_deploy.train.blocks import Batch
from dflash_deploy.train.draft import Draft, fresh
from tests.unit.speculative import tiny
from tests.unit.train import small


def served(model: DraftModel, target, ids, anchor: int, block: int):
    """The block at `anchor` as the decoder computes it."""
    features = small.frozen(target).features(ids[None, :anchor])[0].flatten(1)
    cache = model.open(64)
    model.add_context(cache, features)
    cache.length = anchor
    rows = torch.full((block,), small.MASK)
    rows[0] = ids[anchor]
    return model(target.get_input_embeddings()(rows), cache)


@pytest.mark.parametrize("rank", [0, 6])
def test_blocks_in_training_equal_blocks_in_serving(rank):
    target = tiny.target_model()
    plan = small.recipe(selector_rank=rank)
    config = small.config(target, plan)
    frozen = small.frozen(target)
    tensors = small.stirred(fresh(config, frozen.final_norm(), seed=1))
    ids = torch.randint(4, 40, (2, 20), generator=torch.Generator().manual_seed(2))
    one = Batch(ids, torch.ones_like(ids, dtype=torch.bool), torch.tensor([[3, 11], [7, 15]]))
    masks = torch.full((2, 2, 4), small.MASK)
    masks[..., 0] = ids.gather(1, one.anchors)
    with torch.no_grad():
        features, embedded = frozen.features(ids), frozen.embed(masks.flatten(1))
        scales = torch.ones(features.shape[2])
        hidden = Draft(config, tensors, scales).hidden(one, features, embedded).unflatten(1, (2, 4))
        model = (DraftModel2 if rank else DraftModel)(config, tensors)
        for row in range(2):
            for index in range(2):
                anchor = int(one.anchors[row, index])
                expected = served(model, target, ids[row], anchor, 4)
                assert torch.allclose(hidden[row, index], expected, atol=1e-5)


def test_what_is_fresh_refines_nothing():
    target = tiny.target_model()
    frozen = small.frozen(target)
    ids = torch.randint(4, 40, (2, 20), generator=torch.Generator().manual_seed(2))
    one = Batch(ids, torch.ones_like(ids, dtype=torch.bool), torch.tensor([[3, 11], [7, 15]]))
    features = frozen.features(ids)
    embedded = frozen.embed(torch.full((2, 8), small.MASK))
    behind = torch.zeros(2, 8, dtype=torch.long)
    plain, refined = (small.config(target, small.recipe(selector_rank=rank)) for rank in (0, 6))
    tensors = fresh(plain, frozen.final_norm(), seed=1)
    ones = torch.ones(features.shape[2])
    said = []
    for config, own in ((plain, tensors), (refined, fresh(refined, frozen.final_norm(), seed=1))):
        draft = Draft(config, own | tensors, ones)
        hidden = draft.hidden(one, features, embedded)
        said.append((hidden, draft.guesses(hidden, behind, *frozen.head)))
    assert torch.allclose(said[0][0], said[1][0], atol=1e-6)
    assert torch.equal(said[0][1], said[1][1])


def test_scales_are_folded_into_what_is_saved(tmp_path):
    target = tiny.target_model()
    config = small.config(target, small.recipe())
    tensors = fresh(config, small.frozen(target).final_norm(), seed=1)
    scales = torch.tensor([4.0, 0.5])
    save.save(tmp_path / "draft", config, tensors, scales)
    written = load_draft(tmp_path / "draft").fc.weight.float()
    hidden = config.hidden_size
    assert torch.allclose(written[:, :hidden] * 4, tensors["fc.weight"][:, :hidden], rtol=1e-2)
    assert torch.allclose(written[:, hidden:] / 2, tensors["fc.weight"][:, hidden:], rtol=1e-2)
    assert not (tmp_path / "draft.part").exists()
