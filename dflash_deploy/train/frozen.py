"""The target in training: its features, its embedding and its head. Nothing of it changes."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


class Frozen:
    """A transformers model. Reads the outputs of some layers for whole sequences at once."""

    def __init__(self, model: Any, taps: Sequence[int]) -> None:
        self._model = model.requires_grad_(requires_grad=False)
        self._taps = tuple(taps)
        self.device: torch.device = model.device

    def on(self, device: torch.device) -> Frozen:
        """The same elsewhere."""
        return Frozen(copy.deepcopy(self._model).to(device), self._taps)

    @torch.no_grad()
    def features(self, ids: Tensor) -> Tensor:
        """[sequences, length, taps, hidden] for ids [sequences, length], filled up at the end.

        No row sees a later one, so what fills a sequence up changes nothing before it.
        """
        output = self._model.base_model(
            input_ids=ids.to(self.device), use_cache=False, output_hidden_states=True
        )
        # entry 0 is the embedding, so the output of layer i is entry i + 1
        return torch.stack([output.hidden_states[tap + 1] for tap in self._taps], dim=2)

    @torch.no_grad()
    def embed(self, ids: Tensor) -> Tensor:
        embedded: Tensor = self._model.get_input_embeddings()(ids.to(self.device))
        return embedded

    @property
    def head(self) -> tuple[Tensor, Tensor | None]:
        """Weight [vocab, hidden] and, in some models, bias [vocab]."""
        module = self._model.get_output_embeddings()
        return module.weight, getattr(module, "bias", None)

    @torch.no_grad()
    def final_norm(self) -> Tensor:
        """Where the draft's last norm starts: directions as the target's, logits of variance 1.

        With the target's own norm a random direction has logits so far apart that the first steps
        do nothing but shrink them.
        """
        head = self._model.get_output_embeddings().weight.float()
        norm = next(
            (
                module.weight.float()
                for name, module in self._model.base_model.named_children()
                if name in {"norm", "final_layernorm"}
            ),
            torch.ones(head.shape[1], device=head.device),
        )
        spread = (head * norm).square().sum(1).mean().sqrt()
        return (norm / spread).cpu()


@torch.no_grad()
def sizes(features: Tensor, counted: Tensor) -> Tensor:
    """The median size of each tap's features: a few tokens are larger by orders of magnitude."""
    root_mean_square = features.float().square().mean(-1).sqrt()
    found: Tensor = root_mean_square[counted.to(features.device)].median(dim=0).values
    return found.clamp(min=1e-6)
