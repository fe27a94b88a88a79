"""The next step of several sequences, with one pass of the target for many of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from dflash_deploy.speculative.decoder_target import DecoderSession, DecoderTarget
from dflash_deploy.speculative.joint import passes
from dflash_deploy.speculative.running import Running
from dflash_deploy.speculative.sampling import Proposal
from dflash_deploy.speculative.target import Rows, Target
from dflash_deploy.speculative.types import Step

Outcome = Step | Exception | None


def together(sequences: Sequence[Iterator[Step]], target: Target) -> list[Outcome]:
    """See `types.Decoder`. Prompts are read one after another, and so are cycles of other kinds."""
    shared = [item for item in sequences if isinstance(item, Running) and item.can_share]
    outcomes: dict[int, Outcome] = {}
    if len(shared) > 1 and isinstance(target, DecoderTarget):
        with torch.inference_mode():
            outcomes = _share(shared, target)
    return [
        outcomes[id(sequence)] if id(sequence) in outcomes else _try(next, sequence, None)
        for sequence in sequences
    ]


def _share(sequences: Sequence[Running], target: DecoderTarget) -> dict[int, Outcome]:
    """What each cycle came to, by the sequence's id; who fails alone, fails alone."""
    outcomes: dict[int, Outcome] = {}
    blocks: list[tuple[Running, Tensor]] = []
    proposals = _try(_propose, sequences)
    if isinstance(proposals, Exception):
        proposals = {}  # each by itself, then, and who fails is known
    for sequence in sequences:
        block = _try(sequence.block, proposals.get(id(sequence)))
        if isinstance(block, Exception):
            outcomes[id(sequence)] = block
        else:
            blocks.append((sequence, block))
    for part in passes([len(block) for _, block in blocks]):
        members = [blocks[index] for index in part]
        seen = _try(_pass, members, target)
        for index, (sequence, _) in enumerate(members):
            whole = isinstance(seen, Exception)
            outcomes[id(sequence)] = seen if whole else _try(sequence.judge, seen[index])
    for sequence in sequences:
        if isinstance(outcomes[id(sequence)], Exception):
            sequence.close()
    return outcomes


def _propose(sequences: Sequence[Running]) -> dict[int, Proposal]:
    """Proposals for those that may be drafted in one pass, if there are several."""
    sharing = [sequence for sequence in sequences if sequence.drafter is not None]
    drafts = [draft for draft in (sequence.draft() for sequence in sharing) if draft is not None]
    drafter = sharing[0].drafter if len(drafts) > 1 else None
    if drafter is None:
        return {}
    proposals = drafter.propose_together(drafts)
    return {id(s): proposal for s, proposal in zip(sharing, proposals, strict=True)}


def _pass(members: Sequence[tuple[Running, Tensor]], target: DecoderTarget) -> list[Rows]:
    sessions = [sequence.session for sequence, _ in members]
    return target.check(
        [session for session in sessions if isinstance(session, DecoderSession)],
        [block for _, block in members],
    )


def _try(work: Callable[..., Any], *arguments: Any) -> Any:
    """What it returns, or the exception that it raises."""
    try:
        return work(*arguments)
    except Exception as error:  # noqa: BLE001 - it is told to the sequence's owner, as it is
        return error
