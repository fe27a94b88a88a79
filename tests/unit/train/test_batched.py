"""Many rows at once say what each says alone."""

from __future__ import annotations

import pytest
import torch

from dflash_deploy.train import gpus
from dflash_deploy.train.batched import Continued, continued
from dflash_deploy.train.events import Stopped
from dflash_deploy.train.gpus import Devices
from tests.unit.speculative import tiny


def prompts(*lengths):
    chance = torch.Generator().manual_seed(0)
    return [torch.randint(4, 40, (n,), generator=chance).tolist() for n in lengths]


def test_rows_of_any_length_as_if_alone():
    model = tiny.target_model()
    rows = [Continued(prompt, 9 + i) for i, prompt in enumerate(prompts(3, 17, 1, 8))]
    said = continued(model, rows, frozenset(), seed=1)
    assert said == [tiny.generated(model, row.prompt, row.room) for row in rows]


def test_a_long_prompt_goes_through_in_parts(monkeypatch):
    monkeypatch.setattr("dflash_deploy.train.batched.PREFILL_COLUMNS", 4)
    model = tiny.target_model()
    rows = [Continued(prompt, 5) for prompt in prompts(11, 2)]
    said = continued(model, rows, frozenset(), seed=1)
    assert said == [tiny.generated(model, row.prompt, row.room) for row in rows]


def test_a_row_ends_where_its_answer_does():
    model = tiny.target_model()
    [prompt] = prompts(5)
    whole = tiny.generated(model, prompt, 20)
    end = whole[3]
    [said] = continued(model, [Continued(prompt, 20)], frozenset({end}), seed=1)
    assert said == whole[: whole.index(end) + 1]


def test_sampling_is_of_the_seed_and_leaves_greedy_rows_alone():
    model = tiny.target_model()
    a, b = prompts(5, 6)
    rows = [Continued(a, 12, 5.0), Continued(b, 12)]
    first, again, other = (continued(model, rows, frozenset(), seed) for seed in (1, 1, 2))
    assert first == again
    assert first[0] != other[0]
    assert first[1] == other[1] == tiny.generated(model, b, 12)


def test_batches_come_back_in_the_order_of_the_rows(monkeypatch):
    monkeypatch.setattr(gpus, "ROWS", 2)
    model = tiny.target_model()
    rows = [Continued(prompt, 4) for prompt in prompts(3, 20, 5, 4, 9)]
    said = Devices(model).continued(rows, frozenset(), seed=1)
    assert said == [tiny.generated(model, row.prompt, row.room) for row in rows]


def test_how_far_the_rows_are_is_told_at_every_token(monkeypatch):
    monkeypatch.setattr(gpus, "ROWS", 2)
    rows = [Continued(prompt, 4) for prompt in prompts(3, 5, 4, 9)]
    told = []
    Devices(tiny.target_model()).continued(rows, frozenset(), 1, told.append)
    assert told == [0, 1, 1, 2, 2, 3, 3, 4]  # of two batches, one after the other


def test_a_batch_that_nobody_waits_for_ends_at_the_next_token():
    told = []
    shares = gpus._Shares([2, 2], told.append)
    shares.done(1, 0.5)
    shares.given_up = True
    with pytest.raises(Stopped):
        shares.done(1, 1.0)
    assert told == [1]


def test_what_is_raised_on_the_way_ends_it():
    told = []

    def ended(done):
        told.append(done)
        raise Stopped

    with pytest.raises(Stopped):
        Devices(tiny.target_model()).continued([Continued([3], 400)], frozenset(), 1, ended)
    assert told == [0]


def test_on_a_cpu_a_batch_is_small_enough_to_be_interrupted():
    rows = [Continued([3], 4)] * (gpus.CPU_ROWS + 1)
    parts = list(gpus._batches(rows, tiny.target_model(), gpus.CPU_MEMORY))
    assert [len(part) for part in parts] == [gpus.CPU_ROWS, 1]
