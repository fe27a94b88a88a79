"""Sequences in the slots of one recorded cycle: who has which, and how far each is."""

from __future__ import annotations

import heapq

from dflash_deploy.speculative.cycle import IDLE, Cycle
from dflash_deploy.speculative.decoder_target import DecoderSession, DecoderTarget
from dflash_deploy.speculative.lane import told
from dflash_deploy.speculative.model import DraftModel
from dflash_deploy.speculative.proposer import DraftState
from dflash_deploy.speculative.recorded import Recorder, Replay
from dflash_deploy.speculative.sampling import Chooser, Proposal
from dflash_deploy.speculative.slots import reach_of
from dflash_deploy.speculative.target import Rows
from dflash_deploy.speculative.types import Sampling, Step


class Slots:
    """A fixed number of sequences of one pair, at most `capacity` positions each."""

    def __init__(
        self,
        target: DecoderTarget,
        draft: DraftModel | None,
        width: int,
        *,
        slots: int,
        capacity: int,
    ) -> None:
        # a block is written whole, also where less of it is committed
        self._cycle = Cycle(target, draft, width, slots=slots, capacity=capacity + width)
        self.draft = draft
        self.width, self.capacity = width, capacity
        self.buffers = self._cycle.buffers
        state = (self.buffers.lengths, self.buffers.anchors, self.buffers.block)
        self._recorder = Recorder(target.device, state)
        self._recorded: dict[tuple[int, int, int], tuple[Replay, Replay]] = {}
        self._free = list(range(slots))

    def enter(
        self,
        session: DecoderSession,
        state: DraftState | None,
        sampling: Sampling,
        chooser: Chooser,
    ) -> SlotLane | None:
        """A lane for a sequence whose prompt has been read; None if every slot is taken."""
        if not self._free or session.cache.capacity > self.capacity:
            return None
        slot = heapq.heappop(self._free)
        self._cycle.stored.fill(slot, session.cache)
        if state is not None and self._cycle.context is not None:
            self._cycle.context.fill(slot, state.cache)
        self.buffers.lengths[slot] = session.length
        return SlotLane(self, slot, session.length, state is not None, sampling, chooser)

    def leave(self, slot: int) -> None:
        self.buffers.limits[slot] = IDLE
        self.buffers.lengths[slot] = 0
        heapq.heappush(self._free, slot)

    def steps(self, slots: range, stop: int) -> tuple[Replay, Replay]:
        """Propose and verify for neighbouring slots whose blocks end before position `stop`."""
        reach = reach_of(stop, self._cycle.capacity)
        key = (slots.start, slots.stop, reach)
        if key not in self._recorded:
            self._recorded[key] = (
                self._recorder.record(lambda: self._cycle.propose(slots, reach)),
                self._recorder.record(lambda: self._cycle.verify(slots, reach)),
            )
        return self._recorded[key]


class SlotLane:
    """One sequence in its slot."""

    def __init__(
        self,
        slots: Slots,
        slot: int,
        length: int,
        speculate: bool,
        sampling: Sampling,
        chooser: Chooser,
    ) -> None:
        self._slots, self._slot = slots, slot
        self._length, self._speculate = length, speculate
        self._sampling, self._chooser = sampling, chooser
        self._limit = IDLE
        self._anchor: int | None = None
        """What the device has as the slot's anchor."""

    def cycle(self, anchor: int, remaining: int) -> Step:
        slots, slot = self._slots, self._slot
        drafted = min(slots.width, remaining) - 1 if self._speculate else 0
        self._set(anchor, drafted)
        propose, verify = slots.steps(range(slot, slot + 1), self._length + slots.width)
        if drafted:
            propose()
        proposal = self._drawn(anchor, drafted)
        verify()
        if self._chooser.greedy:
            # the one copy from the device in a cycle
            *best, accepted = slots.buffers.told[slot].tolist()
            tokens = tuple(best[: accepted + 1])
        else:
            accepted, tokens = self._judged(proposal)
        self._length += len(tokens)
        self._anchor = tokens[-1]
        spoken = told(Rows.given(slots.buffers.logits[slot]), tokens, self._sampling)
        return Step(tokens, drafted, accepted, spoken)

    def close(self) -> None:
        self._slots.leave(self._slot)

    def _set(self, anchor: int, limit: int) -> None:
        buffers = self._slots.buffers
        if anchor != self._anchor:
            buffers.anchors[self._slot] = anchor
        if limit != self._limit:
            buffers.limits[self._slot] = self._limit = limit

    def _drawn(self, anchor: int, count: int) -> Proposal | None:
        """A sampled proposal, put into the block in place of the best one."""
        draft, buffers, slot = self._slots.draft, self._slots.buffers, self._slot
        if self._chooser.greedy or draft is None or count == 0:
            return None
        proposal = draft.propose(buffers.hidden[slot], buffers.scores[slot], anchor, self._chooser)
        buffers.block[slot, 1:].copy_(proposal.tokens)
        return proposal.first(count)

    def _judged(self, proposal: Proposal | None) -> tuple[int, tuple[int, ...]]:
        """What sampling commits; the verdict that the device reached greedily is set right."""
        buffers, slot = self._slots.buffers, self._slot
        logits = buffers.logits[slot]
        if proposal is None:
            tokens = (self._chooser.choose(logits[0]),)
        else:
            verdict = self._chooser.verify(logits[: len(proposal.tokens) + 1], proposal)
            tokens = (*proposal.tokens[: verdict.accepted].tolist(), verdict.token)
        buffers.lengths[slot] = self._length + len(tokens)
        buffers.anchors[slot] = tokens[-1]
        return len(tokens) - 1, tokens
