from __future__ import annotations

import pytest
import torch
from msgspec.structs import replace

from dflash_deploy.train import copies as module
from dflash_deploy.train import loop
from dflash_deploy.train.blocks import ROUND, Feed
from dflash_deploy.train.copies import Copies
from dflash_deploy.train.draft import Draft
from dflash_deploy.train.loss import summed_loss
from tests.unit.speculative import tiny
from tests.unit.train import small

CPU = torch.device("cpu")


@pytest.fixture
def run(tmp_path):
    target = tiny.target_model()
    plan = small.recipe(batch=4)
    config = small.config(target, plan)
    feed = Feed(small.answers(target), size=4, length=plan.length, seed=1)
    frozen = small.frozen(target)
    state = loop.begun(tmp_path, plan, config, frozen, feed)
    draft = Draft(config, state.tensors, state.scales)
    draft.reach(plan.length + ROUND, CPU)

    def copies(count, **changed):
        return Copies(replace(plan, **changed), draft, frozen, [CPU] * count)

    return copies, feed.at(0, plan.anchors), state, plan


def test_the_gradient_is_the_mean_of_the_parts(run):
    copies, batch, _, _ = run
    two = copies(2)
    loss, accuracy = two.work(two.parts(batch))
    alone = copies(1)
    made = []
    for part in batch.cut(2):
        found = alone.work([part])
        made.append((*(each.clone() for each in found), [g.clone() for g in alone.gradients]))
    assert loss == pytest.approx(float(made[0][0] + made[1][0]) / 2)
    assert accuracy == pytest.approx(float(made[0][1] + made[1][1]) / 2)
    for mine, first, second in zip(two.gradients, made[0][2], made[1][2], strict=True):
        torch.testing.assert_close(mine, (first + second) / 2)


def test_dpace_paces_whole_blocks_of_places_that_count_or_do_not(run, monkeypatch):
    copies, batch, _, plan = run
    seen = []

    def summed(*given):
        seen.append((given, summed_loss(*given)))
        return seen[-1][1]

    monkeypatch.setattr(module, "summed_loss", summed)
    one = copies(1, dpace=True)
    loss, _ = one.work(one.parts(batch))
    ((*_, counts, _, paced), (total, weight, _)) = seen[0]
    assert paced == plan.block_size - 1
    assert set(counts.tolist()) == {0, 1}
    assert loss == pytest.approx(float(total.detach() / weight))


def test_copies_take_the_trained_weights(run):
    copies, batch, state, plan = run
    two = copies(2)
    parts = two.parts(batch)
    loop._step(plan, two, state, parts)
    again, _ = two.work(parts)
    expected, _ = copies(2).work(parts)  # made anew of the trained weights
    assert float(again) == pytest.approx(float(expected))


def test_a_batch_that_cannot_be_cut_so_uses_fewer(run):
    copies, batch, _, _ = run
    assert [len(part.ids) for part in copies(3).parts(batch)] == [2, 2]
