from __future__ import annotations

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
    found, right = loss.summed_loss(hidden, weight, bias, tokens, counts, more)
    asked = [hidden, queries, gains] if rank else [hidden]
    got = torch.autograd.grad(found / 7, asked)
    logits = hidden @ weight.T + bias + queries @ gains.T
    expected = (functional.cross_entropy(logits, tokens, reduction="none") * counts).sum()
    assert torch.allclose(found, expected)
    for mine, theirs in zip(got, torch.autograd.grad(expected / 7, asked), strict=True):
        assert torch.allclose(mine, theirs, atol=1e-6)
    assert torch.equal(right, logits.argmax(-1) == tokens)
