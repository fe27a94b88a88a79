"""The draft-verify loop: propose a block, check it in one pass of the target, keep what holds."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from dflash_deploy.errors import Unsupported
from dflash_deploy.speculative.config import DraftConfig
from dflash_deploy.speculative.costs import Costs
from dflash_deploy.speculative.decoder_target import DecoderSession, DecoderTarget
from dflash_deploy.speculative.lane import Lane, OwnCaches, chosen, told
from dflash_deploy.speculative.model import DraftModel
from dflash_deploy.speculative.pace import Pace, Steady, Thrifty, Trial
from dflash_deploy.speculative.proposer import Proposer
from dflash_deploy.speculative.recorded import can_record
from dflash_deploy.speculative.running import Running
from dflash_deploy.speculative.sampling import Chooser
from dflash_deploy.speculative.slot_lane import Slots
from dflash_deploy.speculative.target import Target, TargetShape
from dflash_deploy.speculative.together import together
from dflash_deploy.speculative.types import Sampling, Step

# sequences on a GPU that are decoded by recorded cycles, and how long each may be; what comes
# above either is decoded unrecorded
SLOTS, SLOT_CAPACITY = 4, 4096

# what an adaptive decoder decodes at the start, to learn what its cycles cost
TRIAL_PROMPT, TRIAL_ROUNDS = 64, 4


class SpeculativeDecoder:
    """A target, with or without its draft; see `types.Decoder` for the contract.

    `target` is what `load_target` returns, or a transformers model. `block_size` may only shorten
    the draft's own. With `adaptive` a draft that does not pay is left out: what a cycle and a plain
    step cost is measured now, for about half a second, and from then on. Where a GPU repeats
    recorded cycles it drafts always.
    Raises Unsupported if the draft was made for another target.
    """

    def __init__(
        self,
        target: Any,
        draft: DraftModel | None = None,
        *,
        block_size: int | None = None,
        adaptive: bool = False,
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
        else:
            with torch.inference_mode():
                self._target.prepare(())
        self._slots = self._make_slots() if can_record(self._target.device) else None
        self._costs: Costs | None = None
        if adaptive and self._proposer is not None and self._slots is None:
            self._costs = Costs(self._proposer.widths)
            self._measure(self._proposer, self._costs)

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
        proposer = self._proposer if speculate else None
        return self._run(list(prompt_ids), proposer, sampling, self._pace(sampling))

    def together(self, sequences: Sequence[Iterator[Step]]) -> list[Step | Exception | None]:
        return together(sequences, self._target)

    def _pace(self, sampling: Sampling) -> Pace:
        if self._costs is None:
            return Steady()
        seeded = sampling.temperature > 0 and sampling.seed is not None
        return Thrifty(self._costs, repeatable=seeded)

    def _measure(self, proposer: Proposer, costs: Costs) -> None:
        """Decode nonsense: the first round is for the caches, and is forgotten."""
        prompt = [0] * min(TRIAL_PROMPT, self.max_context // 2)
        for kept, rounds in ((Costs(proposer.widths), 1), (costs, TRIAL_ROUNDS)):
            most = min(3 * rounds * self._block, self.max_context - len(prompt))
            steps = self._run(prompt, proposer, Sampling(most), Trial(kept))
            for _ in itertools.islice(steps, 1 + 3 * rounds):
                pass
        costs.keep_first()

    def _run(
        self, prompt: list[int], proposer: Proposer | None, sampling: Sampling, pace: Pace
    ) -> Running:
        return Running(lambda: self._begin(prompt, proposer, sampling, pace), sampling)

    def _begin(
        self, prompt: list[int], proposer: Proposer | None, sampling: Sampling, pace: Pace
    ) -> tuple[Lane, Step]:
        """Read the prompt; say the first token."""
        capacity = len(prompt) + sampling.max_new_tokens
        session = self._target.open(capacity, () if proposer is None else proposer.taps)
        ids = torch.tensor(prompt, dtype=torch.long, device=self._target.device)
        rows = session.forward(ids, 1)
        state = None
        if proposer is not None and rows.features is not None:
            state = proposer.open(capacity)
            proposer.commit(state, rows.features, len(prompt))
        chooser = Chooser(sampling, self._target.device)
        token = chosen(chooser, rows)
        step = Step((token,), chances=told(rows, (token,), sampling))
        lane: Lane | None = None
        if self._slots is not None and isinstance(session, DecoderSession):
            lane = self._slots.enter(session, state, sampling, chooser)
        return lane or OwnCaches(session, proposer, state, sampling, chooser, pace), step

    def _make_slots(self) -> Slots | None:
        """Where a GPU repeats recorded cycles; a target of transformers' own cannot be recorded."""
        target = self._target
        if not isinstance(target, DecoderTarget):
            return None
        draft = None if self._proposer is None else self._proposer.draft
        capacity = min(self.max_context, SLOT_CAPACITY)
        with torch.inference_mode():
            return Slots(target, draft, self._block, slots=SLOTS, capacity=capacity)


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
