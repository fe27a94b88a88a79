"""What a verification found, in words: a line a check, where answers part, the verdict."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from dflash_deploy.cli import _output
from dflash_deploy.cli._output import Column
from dflash_deploy.measure.judged import Compared, Judgement
from dflash_deploy.measure.verified import Accepted, Sampled, Verification

CHECKS = (Column("CHECK"), Column("FOUND", wrap=True))
PARTINGS = (
    Column("WHAT"), Column("PROMPT"), Column("AT", right=True), Column("PLAIN"),
    Column("DFLASH"), Column("NATS", right=True),
)  # fmt: skip
PROMPT, TOKEN = 22, 12
"""Columns that are shown of each, so that a row fits 80."""
MOST = 10
"""Rows of a kind; `--json` has them all."""


def show(found: Verification) -> None:
    _output.table(CHECKS, list(_checks(found)))
    if found.judgement is not None:
        _partings(found.judgement)
    _output.text()
    _output.paragraph(_verdict(found), style="bold")


def _checks(found: Verification) -> Iterator[tuple[str, str]]:
    of = ", ".join(workload.name for workload in found.workloads)
    left = "" if found.complete else f" of {found.questions}"
    pairs = "pair" if found.complete and found.compared == 1 else "pairs"
    yield "compared", f"{found.compared}{left} {pairs} of answers to {of}"
    if found.judgement is not None:
        yield from _judged(found.judgement, found.max_regret)
    if found.accuracy is not None:
        marks = found.accuracy
        yield "right answers", f"plain {marks.plain}, DFlash {marks.dflash} of {marks.known}"
    if found.same_distribution is not None:
        yield "distribution", f"p = {found.same_distribution:.2g}" + _worst(found.sampled)
    if found.acceptance is not None:
        block = next((arm.block_size for arm in found.arms if arm.block_size), None)
        yield "acceptance", _acceptance(found.acceptance, block)


def _judged(found: Judgement, max_regret: float) -> Iterator[tuple[str, str]]:
    share = f" ({found.exact_rate:.0%})" if found.exact_rate is not None else ""
    yield "exact", f"{found.exact} of {found.prompts}{share}"
    yield "near ties", _regrets(found.near_ties, f"up to {max_regret:g} nats are numerics")
    yield "costly", _regrets(found.costly, "the target was not in doubt")
    if found.untold:
        yield "untold", f"{len(found.untold)}: nobody can tell what they cost"
    yield "loops", f"{len(found.loops)}: DFlash's alone" if found.loops else "none"


def _worst(ones: Sequence[Sampled]) -> str:
    if len(ones) == 1:
        return ""
    worst = min(ones, key=lambda each: each.p)
    return f" over {len(ones)} prompts; the least, {worst.p:.2g}, of {_cut(worst.prompt, PROMPT)}"


def _regrets(ones: Sequence[Compared], why: str) -> str:
    if not ones:
        return "none"
    widest = max(one.divergence.regret or 0 for one in ones if one.divergence)
    return f"{len(ones)}, the widest by {widest:.2g} nats: {why}"


def _acceptance(found: Accepted, block: int | None) -> str:
    """`block`: as the server was started, or as its user says of one at a URL."""
    length = f"{found.length:.2f} tokens a cycle" if found.length else found.source
    if block and found.drafted and found.drafted > block - 1:
        return f"{length}; its server drafts {found.drafted:g} a cycle: it has no block of {block}"
    if found.on_record is None:
        return f"{length}; nothing is on record for this block"
    return f"{length}; on record {found.on_record:.2f} ({found.record})"


def _partings(found: Judgement) -> None:
    kinds = (("COSTLY", found.costly), ("untold", found.untold), ("near tie", found.near_ties))
    rows = [_row(kind, one) for kind, ones in kinds for one in ones[:MOST]]
    rows += [("LOOP", _cut(one.prompt, PROMPT), "", "", "", "") for one in found.loops[:MOST]]
    if rows:
        _output.text()
        _output.table(PARTINGS, rows)
    if any(len(ones) > MOST for ones in (*(ones for _, ones in kinds), found.loops)):
        _output.text(f"{MOST} of each kind; --json has them all")


def _row(kind: str, one: Compared) -> tuple[str, ...]:
    at = one.divergence
    if at is None:
        return (kind, _cut(one.prompt, PROMPT), "", "", "", "")
    cost = "?" if at.regret is None else f"{at.regret:.2f}"
    return (
        kind, _cut(one.prompt, PROMPT), str(at.position), _token(at.plain), _token(at.dflash),
        f">={cost}" if at.at_least else cost,
    )  # fmt: skip


def _token(said: str) -> str:
    """Quoted, so that a space is seen."""
    return _cut(json.dumps(said, ensure_ascii=False), TOKEN) if said else "(its end)"


def _cut(said: str, room: int) -> str:
    words = "".join(sign if sign.isprintable() else "?" for sign in " ".join(said.split()))
    return _output.shortened(words, room)


def _verdict(found: Verification) -> str:
    if not found.complete:
        return "cut short: what was seen so far is no proof"
    if not found.passed:
        return "not lossless: " + "; ".join(why.message for why in found.failing)
    if found.judgement is None:
        return "lossless here: both sets of samples may well be of one distribution"
    if found.judgement.near_ties:
        return "lossless here: answers part only where two tokens were as likely"
    return "lossless here: every answer is plain decoding's, token by token"
