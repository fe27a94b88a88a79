"""What stays of an entry under another that extends it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from dflash_deploy.schema import Draft, Evidence, Model


def over_drafts(below: list[Draft], own: list[Draft]) -> list[Draft]:
    """An overlay's drafts over those below: the order, and so the first of them, stays."""
    told = {draft.id: draft for draft in own}
    known = {draft.id for draft in below}
    return [*(told.get(draft.id, draft) for draft in below),
            *(draft for draft in own if draft.id not in known)]  # fmt: skip


def still_true(below: Model, own: list[Draft]) -> Iterator[Evidence]:
    """Evidence below, but for that of a draft whose revision was known and is another now."""
    told = {draft.id: draft.revision for draft in own}
    drafts = below.drafts
    moved = {
        draft.id for draft in drafts
        if draft.revision and told.get(draft.id, draft.revision) != draft.revision
    }  # fmt: skip
    first = drafts[0].id if drafts else None
    return (each for each in below.evidence if (each.draft or first) not in moved)
