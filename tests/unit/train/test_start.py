"""Training that goes on with a draft: its weights, not fresh ones, and what is refused."""

from __future__ import annotations

import json

import pytest
import torch

from dflash_deploy.errors import Unsupported
from dflash_deploy.speculative.config import parse_config
from dflash_deploy.speculative.load import load_model
from dflash_deploy.train import recipe, start
from dflash_deploy.train.draft import fresh, loaded
from dflash_deploy.train.events import Stopped
from dflash_deploy.train.save import save
from dflash_deploy.train.work import Work
from tests.unit.train import small
from tests.unit.train.test_loop import Run
from tests.unit.train.test_work import begun, work


@pytest.mark.parametrize("rank", [0, 6])
def test_it_begins_where_the_draft_ended(tmp_path, rank):
    before = Run(tmp_path / "before", steps=30, selector_rank=rank)
    state = before.train()
    save(tmp_path / "draft", before.config, state.tensors, state.scales)
    after = Run(
        tmp_path / "after", steps=3, selector_rank=rank, start=str(tmp_path / "draft"),
        learning_rate=1e-6,
    )  # fmt: skip
    moved = after.train()
    # of the same batch: the first
    assert after.curve[0].loss < 0.8 * before.curve[0].loss
    save(tmp_path / "again", after.config, moved.tensors, moved.scales)
    ended, began = (loaded(tmp_path / name, torch.device("cpu")) for name in ("again", "draft"))
    for name, tensor in began.tensors.items():
        # Adam's and Muon's least steps, and bfloat16
        assert torch.allclose(ended.tensors[name], tensor, atol=1e-4, rtol=2e-2), name


def test_from_a_checkpoint_the_draft_is_not_needed(tmp_path):
    first = Run(tmp_path / "first", steps=2)
    state = first.train()
    save(tmp_path / "draft", first.config, state.tensors, state.scales)
    seen = []
    run = Run(tmp_path / "run", steps=4, start=str(tmp_path / "draft"))
    with pytest.raises(Stopped):
        run.train(stop=lambda: len(seen) == 2, told=seen.append)
    (tmp_path / "draft" / "model.safetensors").unlink()
    assert run.train().step == 4


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """A target, and an untrained draft for it with other taps than a fresh one would have."""
    target = small.saved_target(tmp_path_factory.mktemp("target"))
    folder = tmp_path_factory.mktemp("draft") / "draft"
    model = load_model(target, dtype="float32")
    raw = dict(small.config(model, small.recipe(layers=3)).raw)
    raw["dflash_config"] = raw["dflash_config"] | {"target_layer_ids": [0, 2]}
    config = parse_config(raw, "config.json")
    tensors = fresh(config, small.frozen(model).final_norm(), seed=1)
    save(folder, config, tensors, torch.ones(2))
    return target, folder


def test_a_whole_run_keeps_the_shape_of_the_draft(tmp_path, pair):
    target, folder = pair
    plan = begun(tmp_path / "run", target, start=str(folder), layers=3)
    work(tmp_path / "run")
    made = tmp_path / "run" / plan.draft.rpartition("/")[2]
    assert json.loads((made / "config.json").read_text()) == json.loads(
        (folder / "config.json").read_text()
    )


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"layer_types": ["sliding_attention"] * 3, "sliding_window": 8}, "sliding windows"),
        ({"is_causal": True}, "causal layers"),
        ({"input_embedding_scale": 2.0}, "a scaled embedding"),
        ({"final_logit_softcapping": 30.0}, "scaled logits"),
    ],
)
def test_what_is_not_trained_is_refused_before_anything_is_answered(tmp_path, pair, changed, said):
    target, folder = pair
    other = tmp_path / "other"
    other.mkdir()
    raw = json.loads((folder / "config.json").read_text()) | changed
    (other / "config.json").write_text(json.dumps(raw))
    plan = small.recipe(model=str(target), prompts=4, held_out=1, start=str(other))
    recipe.begin(tmp_path, plan)
    seen = []
    with pytest.raises(Unsupported, match=said):
        Work(tmp_path, seen.append, lambda: False, None).run()
    assert seen == []


def test_a_file_that_is_not_its_configs_is_refused(tmp_path, pair):
    _, folder = pair
    config = start.shape(folder)
    other = parse_config(dict(config.raw) | {"intermediate_size": 64}, "config.json")
    with pytest.raises(Unsupported, match="has shape"):
        start.tensors(folder, other, torch.ones(2))
