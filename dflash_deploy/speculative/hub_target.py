"""Any other causal language model, run by transformers itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from dflash_deploy.errors import Unsupported
from dflash_deploy.speculative.target import Rows, TargetShape, shape_of


class HubTarget:
    """A transformers model: slower than our own forward pass, and right for every family."""

    def __init__(self, model: Any) -> None:
        if getattr(model, "_is_stateful", False):
            raise Unsupported(
                f"{type(model).__name__} keeps a recurrent state that cannot be rolled back; "
                "speculation needs a cache that can be cut"
            )
        self.model = model
        self.shape: TargetShape = shape_of(model.config)
        self.dtype: torch.dtype = model.dtype
        self.device: torch.device = model.device

    def embed(self, ids: Tensor) -> Tensor:
        embedded: Tensor = self.model.get_input_embeddings()(ids)
        return embedded

    def head(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.model.get_output_embeddings()(hidden)
        return logits

    def head_weight(self) -> Tensor:
        weight: Tensor = self.model.get_output_embeddings().weight
        return weight

    def prepare(self, widths: Sequence[int]) -> None:
        """Nothing to prepare: transformers takes any number of rows."""

    def open(self, capacity: int, taps: Sequence[int]) -> HubSession:
        del capacity  # its cache grows
        return HubSession(self, taps)


class HubSession:
    """One sequence in a cache of transformers' own, which grows by itself."""

    def __init__(self, target: HubTarget, taps: Sequence[int]) -> None:
        from transformers import DynamicCache

        self._target = target
        self._taps = tuple(taps)
        # without the config: layers with a sliding window keep everything and can be cut
        self._cache = DynamicCache()

    @property
    def length(self) -> int:
        return int(self._cache.get_seq_length())

    def crop(self, length: int) -> None:
        self._cache.crop(length)

    def forward(self, ids: Tensor, logits: int) -> Rows:
        output = self._target.model(
            input_ids=ids[None],
            past_key_values=self._cache,
            use_cache=True,
            output_hidden_states=bool(self._taps),
            logits_to_keep=logits,
        )
        features = None
        if self._taps:
            # entry 0 is the embedding, so the output of layer i is entry i + 1
            states = [output.hidden_states[tap + 1][0] for tap in self._taps]
            features = torch.cat(states, dim=-1)
        return Rows.given(output.logits[0], features)
