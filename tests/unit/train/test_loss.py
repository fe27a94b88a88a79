from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from dflash_deploy.train import loss


@pytest.mark.parametrize("rows", [3, 100])
def test_loss_and_gradient_are_those_of_torch_however_the_rows_are_cut(monkeypatch, rows):
    monkeypatch.setitem(loss.PARTS, "cpu", rows)
    chance = torch.Generator().manual_seed(0)
    hidden = torch.randn(20, 6, generator=chance).requires_grad_()
    weight = torch.randn(30, 6, generator=chance)
    bias = torch.randn(30, generator=chance)
    tokens = torch.randint(0, 30, (20,), generator=chance)
    counts = torch.rand(20, generator=chance)
    found, right = loss.summed_loss(hidden, weight, bias, tokens, counts)
    (found / 7).backward()
    got, hidden.grad = hidden.grad, None
    logits = hidden @ weight.T + bias
    expected = (functional.cross_entropy(logits, tokens, reduction="none") * counts).sum()
    (expected / 7).backward()
    assert torch.allclose(found, expected)
    assert torch.allclose(got, hidden.grad, atol=1e-6)
    assert torch.equal(right, logits.argmax(-1) == tokens)
