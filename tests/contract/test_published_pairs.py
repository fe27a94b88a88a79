"""Every pair that was found published is in the registry, under its target, as what it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from dflash_deploy import registry

SHIPPED = registry.load(user=False)
LIST = Path(__file__).parents[1] / "fixtures" / "published_pairs.txt"
PAIRS = [
    tuple(line.split()) for line in LIST.read_text(encoding="utf-8").splitlines() if line[0] != "#"
]


@pytest.mark.parametrize(("draft_id", "target", "kind", "block"), PAIRS, ids=[p[0] for p in PAIRS])
def test_a_pair_is_there(draft_id: str, target: str, kind: str, block: str) -> None:
    entry = SHIPPED.find(draft_id)
    draft = entry.draft(draft_id)
    assert draft.kind == kind
    if block != "?":
        assert draft.block_size == int(block)
    if target == "?":  # nobody knows what an engine should load
        assert entry.id == draft_id
        assert "hub id" in str(entry.model.unservable)
    else:
        assert entry.id == target


def test_no_pair_is_said_twice() -> None:
    drafts = [pair[0] for pair in PAIRS]
    assert len(drafts) == len({*drafts}) > 60
