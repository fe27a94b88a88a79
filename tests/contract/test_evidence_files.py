"""docs/evidence: what the registry and the docs name is there, and tells no folder of its machine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"docs/evidence/[\w.-]+\.jsonl?")
KEPT = sorted((ROOT / "docs" / "evidence").iterdir())


def test_every_file_that_is_named_is_there() -> None:
    texts = [*(ROOT / "docs").glob("*.md"), *(ROOT / "registry" / "models").rglob("*.yaml")]
    named = {name for text in texts for name in NAMED.findall(text.read_text())}
    assert len(named) >= 5
    assert {name for name in named if not (ROOT / name).is_file()} == set()


@pytest.mark.parametrize("file", KEPT, ids=lambda file: file.name)
def test_it_names_no_folder_of_its_machine(file: Path) -> None:
    assert re.findall(r"(?:/tmp|/root|/home|/work)/[\w./-]*", file.read_text()) == []
