"""Many continuations at once: a padded batch, a static cache, one token a row each step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from threading import Lock
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

GROUPED = "grouped_rows"
"""The attention below as transformers knows it; a name with `flash` in it means something else."""
MIN_P = 0.03
"""Of the likeliest token's chance: a sampled token has at least that."""
PREFILL_COLUMNS = 128
"""Of the prompts, how many tokens go through at a time: bounds the mask."""
WARM_UP = 2
"""Steps before one is recorded."""
RECORDING = Lock()
"""Held while a step is recorded: one thread at a time."""
LOOK = 16
"""Steps between two looks at whether all rows have ended: a look waits for the GPU."""


@dataclass(frozen=True)
class Continued:
    """One sequence to continue by at most `room` tokens; temperature 0 is greedy."""

    prompt: list[int]
    room: int
    temperature: float = 0.0

    @property
    def places(self) -> int:
        return len(self.prompt) + self.room


def grouped_attention(
    _module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None,
    scaling: float | None = None, **_: Any,
) -> tuple[Tensor, None]:  # fmt: skip
    """Attention that copies no key for the queries that share it: those become rows.

    query [batch, heads, rows, dim], key and value [batch, kv heads, places, dim].
    """
    batch, heads, rows, dim = query.shape
    groups = heads // key.shape[1]
    folded = query.reshape(batch, key.shape[1], groups * rows, dim)
    mask = None if mask is None else mask.repeat(1, 1, groups, 1)
    mixed = functional.scaled_dot_product_attention(
        folded, key, value, attn_mask=mask, scale=scaling
    )
    return mixed.reshape(batch, heads, rows, dim).transpose(1, 2).contiguous(), None


def room_for(model: Any, places: int, free: int) -> int:
    """How many rows of `places` tokens fit in `free` bytes, half of it left to the arithmetic."""
    config = model.config.get_text_config()
    dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    place = 2 * config.num_hidden_layers * config.num_key_value_heads * dim * model.dtype.itemsize
    return max(1, free // 2 // (places * place))


@torch.inference_mode()
def continued(
    model: Any, rows: Sequence[Continued], ends: frozenset[int], seed: int,
    told: Callable[[float], None] = lambda _: None,
) -> list[list[int]]:  # fmt: skip
    """The tokens that follow each prompt, its end included where it came.

    `told`: the part of the longest row that is there, at every step; what it raises ends this.
    The prompts are filled up at their left, so that all rows stand at the same place.
    """
    from transformers import AttentionInterface

    AttentionInterface.register(GROUPED, grouped_attention)
    before = model.config._attn_implementation  # noqa: SLF001 - there is no other way to read it
    model.set_attn_implementation(GROUPED)
    try:
        return _continued(model, rows, ends, seed, told)
    finally:
        model.set_attn_implementation(before)


def _continued(
    model: Any, rows: Sequence[Continued], ends: frozenset[int], seed: int,
    told: Callable[[float], None],
) -> list[list[int]]:  # fmt: skip
    device = model.device
    batch = _Batch(model, rows)
    choose = _Choice(rows, device, seed)
    stops = torch.tensor(sorted(ends), device=device)
    rooms = torch.tensor([row.room for row in rows], device=device)
    ended = torch.zeros(len(rows), dtype=torch.bool, device=device)
    token = choose(batch.prefill(rows))
    said = [token]
    for step in count(1):
        told(step / batch.longest)
        ended |= torch.isin(token, stops) | (rooms <= step)
        if (step % LOOK == 0 or step == batch.longest) and bool(ended.all()):
            break
        token = choose(batch.step(token))
        said.append(token)
    table = torch.stack(said, dim=1).tolist()
    return [_cut(line, row.room, ends) for line, row in zip(table, rows, strict=True)]


def _cut(tokens: list[int], room: int, ends: frozenset[int]) -> list[int]:
    for place, token in enumerate(tokens[:room]):
        if token in ends:
            return tokens[: place + 1]
    return tokens[:room]


class _Batch:
    """The model with a cache of a fixed size, and which of its places each row may see."""

    def __init__(self, model: Any, rows: Sequence[Continued]) -> None:
        from transformers import StaticCache

        self._model = model
        self._width = max(len(row.prompt) for row in rows)
        self.longest = max(row.room for row in rows)
        # a multiple of 8: attention on a GPU reads masks in pieces of that size
        places = self._width + -(-self.longest // LOOK) * LOOK
        places = -(-places // 8) * 8
        self._cache = StaticCache(config=model.config, max_cache_len=places)
        fill = torch.tensor([self._width - len(row.prompt) for row in rows])
        self._fill = fill.to(model.device)[:, None]
        self._places = torch.arange(places, device=model.device)
        self._seen = self._places >= self._fill
        self._at = torch.zeros(1, dtype=torch.long, device=model.device)
        self._ids = torch.zeros(len(rows), 1, dtype=torch.long, device=model.device)
        self._steps = 0
        self._graph: Any = None
        self._logits = torch.empty(0)

    def prefill(self, rows: Sequence[Continued]) -> Tensor:
        """Logits [rows, vocab] behind the prompts."""
        ids = torch.zeros(len(rows), self._width, dtype=torch.long)
        for index, row in enumerate(rows):
            ids[index, self._width - len(row.prompt) :] = torch.tensor(row.prompt)
        parts = ids.split(PREFILL_COLUMNS, dim=1)
        return [self._forward(part.to(self._model.device)) for part in parts][-1]

    def step(self, tokens: Tensor) -> Tensor:
        """Logits behind one more token a row, which the next step writes over on a GPU.

        There the step is recorded once: launching its kernels takes longer than they do.
        """
        self._ids.copy_(tokens[:, None])
        self._steps += 1
        if self._steps <= WARM_UP or self._ids.device.type != "cuda":
            return self._forward(self._ids)
        if self._graph is None:
            self._graph = torch.cuda.CUDAGraph()
            # a stream of this device: torch has one for all recordings, of the first that records
            stream = torch.cuda.Stream(self._ids.device)
            with (
                RECORDING,
                torch.cuda.graph(self._graph, stream=stream, capture_error_mode="thread_local"),
            ):
                self._logits = self._forward(self._ids)
        self._graph.replay()
        return self._logits

    def _forward(self, ids: Tensor) -> Tensor:
        here = self._at + self._places[: ids.shape[1]]
        causal = self._places <= here[:, None]
        # a row of nothing but filling sees itself: what comes of it is seen by none
        itself = self._places == here[:, None]
        mask = (self._seen[:, None] & causal) | itself
        output = self._model(
            input_ids=ids, attention_mask=mask[:, None],
            position_ids=(here - self._fill).clamp(min=0), past_key_values=self._cache,
            use_cache=True, logits_to_keep=1,
        )  # fmt: skip
        self._at += ids.shape[1]
        logits: Tensor = output.logits[:, -1]
        return logits


class _Choice:
    """Each row's next token: the likeliest, or one drawn at the row's temperature."""

    def __init__(self, rows: Sequence[Continued], device: torch.device, seed: int) -> None:
        warm = [index for index, row in enumerate(rows) if row.temperature > 0]
        self._warm = torch.tensor(warm, dtype=torch.long, device=device)
        degrees = [rows[index].temperature for index in warm]
        self._degrees = torch.tensor(degrees, device=device)[:, None]
        self._chance = torch.Generator(device).manual_seed(seed)

    def __call__(self, logits: Tensor) -> Tensor:
        token = logits.argmax(-1)
        if len(self._warm):
            chances = (logits[self._warm].float() / self._degrees).softmax(-1)
            chances[chances < MIN_P * chances.amax(-1, keepdim=True)] = 0
            # the smallest of exponential times over chances is a draw of them
            race = torch.empty_like(chances).exponential_(generator=self._chance)
            token[self._warm] = (chances / race).argmax(-1)
        return token
