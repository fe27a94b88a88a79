"""The draft-verify loop: propose a block, check it in one pass of the target, keep what holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from dflash_deploy.errors import Unsupported
from dflash_deploy.speculative.cache import KVCache
from dflash_deploy.speculative.chances import chances
from dflash_deploy.speculative.config import DraftConfig
from dflash_deploy.speculative.model import DraftModel
from dflash_deploy.speculative.proposer import Proposer
from dflash_deploy.speculative.sampling import Chooser
from dflash_deploy.speculative.target import Session, Target, TargetShape
from dflash_deploy.speculative.types import Chance, Sampling, Step


class SpeculativeDecoder:
    """A target, with or without its draft; see `types.Decoder` for the contract.

    `target` is what `load_target` returns, or a transformers model. `block_size` may only shorten
    the draft's own. Raises Unsupported if the draft was made for another target.
    """

    def __init__(
        self, target: Any, draft: DraftModel | None = None, *, block_size: int | None = None
    ) -> None:
        from dflash_deploy.speculative.load import as_target

        self._target: Target = as_target(target)
        self._block = 1
        self._proposer: Proposer | None = None
        if draft is not None:
            check_fit(draft.config, self._target.shape)
            self._block = _block_size(draft.config, block_size)
            with torch.inference_mode():
                self._proposer = Proposer(draft, self._target, self._block)

    @property
    def max_context(self) -> int:
        return self._target.shape.max_context

    @property
    def block_size(self) -> int:
        return self._block

    def generate(
        self, prompt_ids: Sequence[int], sampling: Sampling, *, speculate: bool = True
    ) -> Iterator[Step]:
        """Decode one sequence. Raises ValueError at once, not at the first step."""
        total = len(prompt_ids) + sampling.max_new_tokens
        if not prompt_ids:
            raise ValueError("the prompt is empty")
        if total > self.max_context:
            raise ValueError(f"prompt and answer need {total} tokens of {self.max_context}")
        if not all(0 <= token < self._target.shape.vocab_size for token in prompt_ids):
            raise ValueError("the prompt has a token outside the vocabulary")
        if sampling.max_new_tokens < 1:
            return iter(())
        sequence = _Sequence(self._target, self._proposer if speculate else None, sampling)
        return sequence.run(list(prompt_ids))


class _Sequence:
    """One sequence's caches and random numbers."""

    def __init__(self, target: Target, proposer: Proposer | None, sampling: Sampling) -> None:
        self._target = target
        self._proposer = proposer
        self._sampling = sampling
        self._chooser = Chooser(sampling, target.device)

    def run(self, prompt: list[int]) -> Iterator[Step]:
        remaining = self._sampling.max_new_tokens
        # inference mode may not be held across a yield: the caller's code would run inside it
        with torch.inference_mode():
            session, state, step = self._prefill(prompt)
        while True:
            step = self._until_stop(step)
            yield step
            remaining -= len(step.tokens)
            if remaining == 0 or step.tokens[-1] in self._sampling.stop_token_ids:
                return
            with torch.inference_mode():
                step = self._cycle(session, state, step.tokens[-1], remaining)

    def _prefill(self, prompt: list[int]) -> tuple[Session, KVCache | None, Step]:
        capacity = len(prompt) + self._sampling.max_new_tokens
        proposer = self._proposer
        session = self._target.open(capacity, () if proposer is None else proposer.taps)
        rows = session.forward(self._tensor(prompt), 1)
        state = None
        if proposer is not None and rows.features is not None:
            state = proposer.open(capacity)
            proposer.commit(state, rows.features, len(prompt))
        return session, state, self._chosen(rows.logits)

    def _cycle(self, session: Session, state: KVCache | None, anchor: int, remaining: int) -> Step:
        """Commit at most `remaining` tokens behind `anchor`, the last token committed."""
        if self._proposer is None or state is None or remaining == 1:
            logits = session.forward(self._tensor([anchor]), 1).logits
            return self._chosen(logits)
        proposal = self._proposer.propose(state, anchor, remaining - 1, self._chooser)
        start = session.length
        block = torch.cat((self._tensor([anchor]), proposal.tokens))
        seen = session.forward(block, len(block))
        verdict = self._chooser.verify(seen.logits, proposal)
        committed = verdict.accepted + 1
        session.crop(start + committed)
        if seen.features is not None:
            self._proposer.commit(state, seen.features, committed)
        tokens = (*proposal.tokens[: verdict.accepted].tolist(), verdict.token)
        told = self._chances(seen.logits[:committed], tokens)
        return Step(tokens, len(proposal.tokens), verdict.accepted, told)

    def _chosen(self, logits: Tensor) -> Step:
        """The target's own token, by its logits [1, vocab]."""
        token = self._chooser.choose(logits[-1])
        return Step((token,), chances=self._chances(logits, (token,)))

    def _chances(self, logits: Tensor, tokens: Sequence[int]) -> tuple[Chance, ...]:
        top = self._sampling.logprobs
        return () if top is None else chances(logits, tokens, top)

    def _until_stop(self, step: Step) -> Step:
        for index, token in enumerate(step.tokens):
            if token in self._sampling.stop_token_ids:
                kept = index + 1
                accepted = min(step.accepted, kept)
                return Step(step.tokens[:kept], step.drafted, accepted, step.chances[:kept])
        return step

    def _tensor(self, ids: list[int]) -> Tensor:
        return torch.tensor(ids, dtype=torch.long, device=self._target.device)


def check_fit(draft: DraftConfig, target: TargetShape) -> None:
    """Refuse a draft that was made for another target."""
    for what, wanted, found in (
        ("hidden size", draft.hidden_size, target.hidden_size),
        ("number of layers", draft.target_layers, target.layers),
        ("vocabulary", draft.vocab_size, target.vocab_size),
    ):
        if wanted != found:
            raise Unsupported(
                f"this draft was made for another target: its {what} is {wanted}, "
                f"and the target's is {found}"
            )


def _block_size(draft: DraftConfig, asked: int | None) -> int:
    if asked is None:
        return draft.block_size
    if not 1 < asked <= draft.block_size:
        raise Unsupported(
            f"block size {asked} is not possible: this draft takes 2 to {draft.block_size}"
        )
    return asked
