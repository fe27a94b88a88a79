"""The training loop: random anchors, a frozen target, checkpoints that lose nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import cos, pi
from pathlib import Path
from time import monotonic
from typing import Any
from zipfile import is_zipfile

import msgspec
import torch
from torch import Tensor

from dflash_deploy.speculative.config import DraftConfig
from dflash_deploy.train import files, start
from dflash_deploy.train.blocks import ROUND, Answer, Batch, Feed
from dflash_deploy.train.copies import Copies
from dflash_deploy.train.draft import Draft, fresh
from dflash_deploy.train.events import Stopped
from dflash_deploy.train.frozen import Frozen, sizes
from dflash_deploy.train.recipe import Recipe
from dflash_deploy.train.walk import walked

CHECKPOINT, CURVE = "checkpoint.pt", "curve.jsonl"
WARM_UP = 0.04
"""Of the steps, with a learning rate that rises."""
NORM_RATE = 1 / 20
"""Of the learning rate, for vectors: Adam moves them, Muon the matrices."""
CHECKPOINT_SECONDS = 60.0
LOOKS = 10
"""How often the held-out answers are looked at on the way."""
LOOKED_AT = 64
"""Of them, at most."""


class Point(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of the loss curve."""

    step: int
    loss: float
    accuracy: float
    """How often the first drafted token is the target's own."""
    learning_rate: float
    seconds: float
    """Since this process began to train."""
    acceptance_length: float | None = None
    """Now and then: tokens a cycle over answers that are held out."""


@dataclass
class State:
    """What a checkpoint holds. `step`: how many steps are done."""

    tensors: dict[str, Tensor]
    scales: Tensor
    optimisers: list[torch.optim.Optimizer]
    step: int = 0


def train(
    folder: Path,
    plan: Recipe,
    config: DraftConfig,
    target: Frozen,
    answers: Sequence[Answer],
    held_out: Sequence[Answer],
    told: Callable[[Point], None],
    stop: Callable[[], bool],
    devices: Sequence[torch.device] = (),
) -> State:
    """Train to the end, from the checkpoint if there is one. Raises Stopped.

    `devices`: where the parts of a batch are worked on; the first is the target's own.
    """
    looks = {plan.steps * look // LOOKS for look in range(1, LOOKS)}
    feed = Feed(answers, size=plan.batch, length=plan.length, seed=plan.seed)
    state = begun(folder, plan, config, target, feed)
    draft = Draft(config, state.tensors, state.scales)
    draft.reach(plan.length + ROUND, target.device)
    # what was logged behind the checkpoint is computed again
    curve = [p for p in files.read_lines(folder / CURVE, Point) if p.step <= state.step]
    files.rewrite(folder / CURVE, curve)
    copies = Copies(plan, draft, target, devices or [target.device])
    started = saved = monotonic()
    upcoming = copies.parts(feed.at(state.step, plan.anchors))
    with (folder / CURVE).open("ab") as log:
        while state.step < plan.steps:
            loss, accuracy, rate = _step(plan, copies, state, upcoming)
            state.step += 1
            # made while the device is busy: nothing has waited for it yet
            upcoming = copies.parts(feed.at(state.step, plan.anchors))
            reach = None
            if state.step in looks:
                reach = _reach(draft, target, held_out[:LOOKED_AT], plan.length)
            point = Point(
                state.step, float(loss), float(accuracy), rate, round(monotonic() - started, 2),
                reach,
            )  # fmt: skip
            files.append(log, point)
            told(point)
            asked = stop()
            if asked or monotonic() - saved > CHECKPOINT_SECONDS or state.step == plan.steps:
                keep(folder / CHECKPOINT, state)
                saved = monotonic()
            if asked and state.step < plan.steps:
                raise Stopped
    return state


def begun(folder: Path, plan: Recipe, config: DraftConfig, target: Frozen, feed: Feed) -> State:
    """The state to go on from: the checkpoint's, the draft's to start with, or fresh weights."""
    tensors = fresh(config, target.final_norm(), plan.seed)
    tensors = {name: t.to(target.device).requires_grad_() for name, t in tensors.items()}
    state = State(tensors, torch.empty(0), optimisers(tensors, plan.learning_rate))
    file = folder / CHECKPOINT
    if file.exists():
        if not is_zipfile(file):
            raise files.damaged(file, "it has no end")
        read: dict[str, Any] = torch.load(file, map_location=target.device, weights_only=True)
        with torch.no_grad():
            for name, tensor in tensors.items():
                tensor.copy_(read["tensors"][name])
        for optimiser, kept in zip(state.optimisers, read["optimisers"], strict=True):
            optimiser.load_state_dict(kept)
        state.scales, state.step = read["scales"], read["step"]
        return state
    first = feed.at(0, plan.anchors)
    state.scales = sizes(target.features(first.ids), first.answered)
    if plan.start is not None:
        with torch.no_grad():
            for name, begun_with in start.tensors(Path(plan.start), config, state.scales).items():
                tensors[name].copy_(begun_with)
    return state


def keep(path: Path, state: State) -> None:
    document = {
        "step": state.step,
        "tensors": {name: tensor.detach() for name, tensor in state.tensors.items()},
        "scales": state.scales,
        "optimisers": [optimiser.state_dict() for optimiser in state.optimisers],
    }
    with files.whole(path) as part, part.open("wb") as stream:
        try:
            torch.save(document, stream)
        except RuntimeError as error:  # how torch takes a full disk, when it ends its own file
            if isinstance(error.__context__, OSError):
                raise error.__context__ from None
            raise


def optimisers(tensors: dict[str, Tensor], rate: float) -> list[torch.optim.Optimizer]:
    """Muon for matrices, Adam for the rest: on a small draft it learns in fewer steps.

    A codebook is no matrix that anything is multiplied with as a whole: its rows are vectors.
    """
    matrices = [t for name, t in tensors.items() if t.dim() == 2 and "codebook" not in name]
    vectors = [t for name, t in tensors.items() if t.dim() != 2 or "codebook" in name]
    made: list[torch.optim.Optimizer] = [
        torch.optim.Muon(matrices, lr=rate, momentum=0.95, weight_decay=0.01),
        torch.optim.AdamW(vectors, lr=rate * NORM_RATE, weight_decay=0.0),
    ]
    for optimiser in made:
        for group in optimiser.param_groups:
            group["initial"] = group["lr"]
    return made


def factor(step: int, steps: int) -> float:
    """Of the learning rate, at a step: a short rise, then half a cosine down to nothing."""
    rise = max(1, round(steps * WARM_UP))
    if step < rise:
        return (step + 1) / rise
    return 0.5 * (1 + cos(pi * (step - rise) / max(1, steps - rise)))


def _step(
    plan: Recipe, copies: Copies, state: State, parts: Sequence[Batch]
) -> tuple[Tensor, Tensor, float]:
    """One step. Returns its loss, accuracy and learning rate, the first two still on their way."""
    loss, accuracy = copies.work(parts)
    for tensor, gradient in zip(state.tensors.values(), copies.gradients, strict=True):
        tensor.grad = gradient
    torch.nn.utils.clip_grad_norm_(state.tensors.values(), 1.0)
    share = factor(state.step, plan.steps)
    for optimiser in state.optimisers:
        for group in optimiser.param_groups:
            group["lr"] = group["initial"] * share
        optimiser.step()
    copies.follow()
    return loss, accuracy, plan.learning_rate * share


def _reach(draft: Draft, target: Frozen, held_out: Sequence[Answer], length: int) -> float | None:
    walks = list(walked(draft, target, held_out, length))
    count = sum(len(walk.accepted) for walk in walks)
    return round(sum(walk.tokens for walk in walks) / count, 3) if count else None
