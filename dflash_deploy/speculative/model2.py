"""DFlash 2: a grouped dynamic convolution round each sublayer, and a path selector."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from dflash_deploy.errors import Unsupported
from dflash_deploy.speculative.config import DraftConfig, Refinement
from dflash_deploy.speculative.layers import DecoderLayer, Heads, LayerWeights, Place
from dflash_deploy.speculative.linear import Linear
from dflash_deploy.speculative.model import DraftModel, Shapes, expected_shapes
from dflash_deploy.speculative.sampling import Chooser, Proposal

CONVOLUTIONS = ("attention_conv", "mlp_conv")


def expected_shapes2(config: DraftConfig) -> Shapes:
    """Every published tensor of a DFlash 2 draft and its shape."""
    refinement = _refinement(config)
    hidden, taps, rank = config.hidden_size, refinement.conv_kernel, refinement.selector_rank
    kernels = 2 * taps * hidden // refinement.conv_group
    shapes = expected_shapes(config)
    for index in range(config.layers):
        for name in CONVOLUTIONS:
            prefix = f"layers.{index}.{name}"
            shapes[f"{prefix}.base_kernel"] = (2, taps, hidden)
            shapes[f"{prefix}.kernel_projection.weight"] = (kernels, hidden)
    shapes["candidate_selector.predecessor_codebook"] = (config.vocab_size, rank)
    shapes["candidate_selector.successor_codebook"] = (config.vocab_size, rank)
    shapes["candidate_selector.hidden_projection.weight"] = (rank, hidden)
    return shapes


class GroupedConvolution(nn.Module):
    """A short causal convolution over the rows of a block, before and after a sublayer.

    Each row's kernel is a learnt base, one weight a channel, plus a part computed from the row that
    enters the sublayer, one weight a group of channels. Tap j looks j rows back; the block's first
    row has nothing before it.
    """

    base: Tensor

    def __init__(self, base: Tensor, projection: Tensor, group: int) -> None:
        super().__init__()
        self.register_buffer("base", base)
        self.projection = Linear(projection)
        self._group = group

    def prepare(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The sublayer's input, and the kernels [rows, taps, groups] for `finish`."""
        kernels = self.projection(x).unflatten(-1, (2, self.base.shape[1], -1))
        return self._mix(x, self.base[0], kernels[:, 0]), kernels[:, 1]

    def finish(self, x: Tensor, kernels: Tensor) -> Tensor:
        """Convolve the sublayer's output."""
        return self._mix(x, self.base[1], kernels)

    def _mix(self, x: Tensor, base: Tensor, kernels: Tensor) -> Tensor:
        taps, rows = base.shape[0], x.shape[0]
        weights = base + kernels.repeat_interleave(self._group, dim=-1)
        padded = functional.pad(x, (0, 0, taps - 1, 0))
        # window [rows, hidden, taps], oldest row first
        windows = padded.unfold(0, taps, 1)[:rows].flip(-1)
        return torch.einsum("rht,rth->rh", windows, weights)


class RefinedLayer(DecoderLayer):
    """A decoder layer with a convolution round its attention and its feed-forward."""

    def __init__(
        self, weights: LayerWeights, heads: Heads, eps: float, index: int, refinement: Refinement
    ) -> None:
        super().__init__(weights, heads, eps, index)
        self.attention_conv, self.mlp_conv = (
            GroupedConvolution(
                weights.tensors[f"{name}.base_kernel"],
                weights[f"{name}.kernel_projection"],
                refinement.conv_group,
            )
            for name in CONVOLUTIONS
        )

    def forward(self, x: Tensor, place: Place) -> Tensor:
        entering, kernels = self.attention_conv.prepare(self.input_norm(x))
        x = x + self.attention_conv.finish(self.attention(entering, place), kernels)
        entering, kernels = self.mlp_conv.prepare(self.post_norm(x))
        return x + self.mlp_conv.finish(self.mlp(entering), kernels)


class PathSelector(nn.Module):
    """Chooses among the likeliest candidates of each row, one row after another.

    A candidate's score is its logit plus a product of three vectors of the selector's rank: the
    predecessor just chosen, the row's hidden state, and the candidate as successor.
    """

    predecessors: Tensor
    successors: Tensor

    def __init__(self, tensors: Mapping[str, Tensor], top_k: int) -> None:
        super().__init__()
        prefix = "candidate_selector"
        self.register_buffer("predecessors", tensors[f"{prefix}.predecessor_codebook"])
        self.register_buffer("successors", tensors[f"{prefix}.successor_codebook"])
        self.projection = Linear(tensors[f"{prefix}.hidden_projection.weight"])
        self._top_k = top_k

    def propose(
        self, hidden: Tensor, logits: Tensor, anchor: int | Tensor, chooser: Chooser
    ) -> Proposal:
        """Draft tokens for hidden [rows, hidden_size] and logits [rows, vocab] behind `anchor`."""
        best = logits.topk(min(self._top_k, logits.shape[-1]))
        gates = self.projection(hidden)
        successors = functional.embedding(best.indices, self.successors)
        tokens, weights = [], []
        previous = torch.as_tensor(anchor, device=best.indices.device)
        greedy = chooser.temperature == 0
        for row in range(hidden.shape[0]):
            # by embedding and gather: an index that is a tensor would be fetched from the device
            query = functional.embedding(previous, self.predecessors) * gates[row]
            scores = (best.values[row] + successors[row] @ query).float()
            weights.append((scores if greedy else scores / chooser.temperature).softmax(-1))
            choice = scores.argmax() if greedy else _draw(weights[-1], chooser)
            previous = best.indices[row].gather(0, choice[None])[0]
            tokens.append(previous)
        chosen, chances = torch.stack(tokens), torch.stack(weights)
        peaks = chances.amax(-1)
        if greedy:
            return Proposal(chosen, peaks)
        return Proposal(chosen, peaks, best.indices, chances)


def _draw(weights: Tensor, chooser: Chooser) -> Tensor:
    return torch.multinomial(weights, 1, generator=chooser.generator)[0]


class DraftModel2(DraftModel):
    """A DFlash 2 draft; tensors under their published names."""

    def __init__(self, config: DraftConfig, tensors: Mapping[str, Tensor]) -> None:
        super().__init__(config, tensors)
        self.selector = PathSelector(tensors, _refinement(config).selector_top_k)

    def build_layer(self, weights: LayerWeights, index: int) -> nn.Module:
        config = self.config
        return RefinedLayer(weights, self.heads, config.norm_eps, index, _refinement(config))

    def propose(
        self, hidden: Tensor, logits: Tensor, anchor: int | Tensor, chooser: Chooser
    ) -> Proposal:
        return self.selector.propose(hidden, logits, anchor, chooser)


def _refinement(config: DraftConfig) -> Refinement:
    if config.refinement is None:
        raise Unsupported("this draft's config.json is not one of DFlash 2")
    return config.refinement
