from __future__ import annotations

from math import exp

import pytest
import torch
from torch.nn import functional

from dflash_deploy.train import loss


@pytest.mark.parametrize("rows", [3, 100])
@pytest.mark.parametrize("rank", [0, 4])
def test_loss_and_gradients_are_those_of_torch_however_the_rows_are_cut(monkeypatch, rows, rank):
    monkeypatch.setitem(loss.PARTS, "cpu", rows)
    chance = torch.Generator().manual_seed(0)
    hidden = torch.randn(20, 6, generator=chance).requires_grad_()
    weight = torch.randn(30, 6, generator=chance)
    bias = torch.randn(30, generator=chance)
    tokens = torch.randint(0, 30, (20,), generator=chance)
    counts = torch.rand(20, generator=chance)
    queries = torch.randn(20, rank, generator=chance).requires_grad_()
    gains = torch.randn(30, rank, generator=chance).requires_grad_()
    more = loss.More(queries, gains) if rank else None
    found, counted, right = loss.summed_loss(hidden, weight, bias, tokens, counts, more)
    asked = [hidden, queries, gains] if rank else [hidden]
    got = torch.autograd.grad(found / 7, asked)
    logits = hidden @ weight.T + bias + queries @ gains.T
    expected = (functional.cross_entropy(logits, tokens, reduction="none") * counts).sum()
    assert torch.allclose(found, expected)
    assert torch.allclose(counted, counts.sum())
    for mine, theirs in zip(got, torch.autograd.grad(expected / 7, asked), strict=True):
        assert torch.allclose(mine, theirs, atol=1e-6)
    assert torch.equal(right, logits.argmax(-1) == tokens)


def test_a_token_weighs_what_is_reached_from_its_place_on():
    losses = -torch.tensor([[0.6, 0.2, 0.5, 0.4], [0.6, 0.2, 0.5, 0.4]]).log()
    counts = torch.tensor([[1.0, 1, 1, 1], [1, 0, 1, 0]])
    # chances half granted: 0.8, 0.6, 0.75, 0.7; places are reached with 0.8, 0.48, 0.36, 0.252
    assert loss.pace(losses, counts).flatten().tolist() == pytest.approx(
        [1.892, 1.092, 0.612, 0.252, 0.8 + 0.6, 0, 0.6, 0]
    )


@pytest.mark.parametrize("rows", [8, 100])
@pytest.mark.parametrize("rank", [0, 4])
def test_paced_it_is_the_weighed_mean_whose_weights_have_no_gradient(monkeypatch, rows, rank):
    monkeypatch.setitem(loss.PARTS, "cpu", rows)  # 8 would cut the third block in two
    chance = torch.Generator().manual_seed(0)
    hidden = torch.randn(21, 6, generator=chance).requires_grad_()
    weight = torch.randn(30, 6, generator=chance)
    bias = torch.randn(30, generator=chance)
    tokens = torch.randint(0, 30, (21,), generator=chance)
    counts = torch.ones(21)
    counts[[4, 20]] = 0
    queries = torch.randn(21, rank, generator=chance).requires_grad_()
    gains = torch.randn(30, rank, generator=chance).requires_grad_()
    more = loss.More(queries, gains) if rank else None
    found, counted, right = loss.summed_loss(hidden, weight, bias, tokens, counts, more, paced=3)
    asked = [hidden, queries, gains] if rank else [hidden]
    got = torch.autograd.grad(found / counted, asked)
    logits = hidden @ weight.T + bias + queries @ gains.T
    each = functional.cross_entropy(logits, tokens, reduction="none")
    weights = torch.tensor(_paced_by_hand(each.tolist(), counts.tolist(), 3))
    expected = (each * weights).sum() / weights.sum()
    assert torch.allclose(found / counted, expected)
    for mine, theirs in zip(got, torch.autograd.grad(expected, asked), strict=True):
        assert torch.allclose(mine, theirs, atol=1e-6)
    assert torch.equal(right, logits.argmax(-1) == tokens)


def _paced_by_hand(losses: list[float], counts: list[float], block: int) -> list[float]:
    weights = []
    for start in range(0, len(losses), block):
        reached, chance = [], 1.0
        for each, counted in zip(losses[start:][:block], counts[start:], strict=False):
            chance *= 0.5 * exp(-each) + 0.5 if counted else 1
            reached.append(chance * counted)
        weights += [sum(reached[k:]) * counts[start + k] for k in range(block)]
    return weights
