from __future__ import annotations

from functools import cache

import pytest
import torch

from dflash_deploy.speculative import SpeculativeDecoder, load_draft
from dflash_deploy.speculative.types import Sampling
from dflash_deploy.train import files, loop
from dflash_deploy.train.events import Stopped
from dflash_deploy.train.loop import CURVE, Point, train
from dflash_deploy.train.save import save
from tests.unit.speculative import tiny
from tests.unit.train import small


@cache
def target_and_answers():
    """What every run here begins with, and none changes."""
    target = tiny.target_model()
    return target, small.answers(target)


class Run:
    def __init__(self, folder, **changed) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.target, self.answers = target_and_answers()
        self.plan = small.recipe(**changed)
        self.config = small.config(self.target, self.plan)

    def train(self, stop=lambda: False, told=lambda _: None):
        return train(
            self.folder,
            self.plan,
            self.config,
            small.frozen(self.target),
            self.answers,
            self.answers[:2],
            told,
            stop,
        )

    @property
    def curve(self):
        return files.read_lines(self.folder / CURVE, Point)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The end of a run that nothing interrupted."""
    return Run(tmp_path_factory.mktemp("whole")).train()


@pytest.mark.parametrize(("rank", "dpace"), [(0, False), (6, False), (0, True), (6, True)])
def test_the_loss_falls_and_the_draft_changes_no_token(tmp_path, rank, dpace):
    run = Run(tmp_path / "run", steps=60, selector_rank=rank, dpace=dpace)
    state = run.train()
    losses = [point.loss for point in run.curve]
    assert len(losses) == 60
    assert sum(losses[-5:]) < 0.7 * sum(losses[:5])
    save(run.folder / "draft", run.config, state.tensors, state.scales)
    decoder = SpeculativeDecoder(run.target, load_draft(run.folder / "draft"))
    row = run.answers[0]
    prompt = [token for token, said in zip(row.input_ids, row.loss_mask, strict=True) if not said]
    steps = list(decoder.generate(prompt, Sampling(30)))
    assert tiny.tokens(steps) == tiny.generated(run.target, prompt, 30)
    # it was trained on this very answer
    assert sum(step.accepted for step in steps) > 0


def test_stopped_and_taken_up_again_it_is_the_same_run(tmp_path, whole):
    run = Run(tmp_path / "cut")
    seen = []
    with pytest.raises(Stopped):
        run.train(stop=lambda: len(seen) == 7, told=seen.append)
    state = run.train()
    assert state.step == 20
    for name, tensor in whole.tensors.items():
        assert torch.equal(tensor, state.tensors[name]), name
    assert [point.step for point in run.curve] == list(range(1, 21))


def test_killed_between_checkpoints_it_goes_on_from_the_last(tmp_path, monkeypatch, whole):
    run = Run(tmp_path / "cut")
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", -1.0)

    def killed(point) -> None:
        if point.step == 5:
            monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 1e9)
        if point.step == 9:
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        run.train(told=killed)
    assert len(run.curve) == 9
    state = run.train()
    assert [point.step for point in run.curve] == list(range(1, 21))
    for name, tensor in whole.tensors.items():
        assert torch.equal(tensor, state.tensors[name]), name


def test_a_rise_then_half_a_cosine():
    assert loop.factor(0, 100) == 0.25
    assert loop.factor(3, 100) == 1.0
    assert loop.factor(4, 100) == 1.0
    assert loop.factor(52, 100) == pytest.approx(0.5)
    assert loop.factor(99, 100) < 0.001
