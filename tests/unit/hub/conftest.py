from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dflash_deploy.hub.pulling import Pull
from tests.fakes.hub import Hub, Repo, serving
from tests.unit.hub.pulls import QUICK, repository


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", "/nonexistent")
    with serving(Hub(repos={"org/big": Repo(repository())})) as hub:
        yield hub


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def pull(fake: Hub, tmp_path: Path, said: list[str]) -> Pull:
    return Pull(fake.url, tmp_path / "hub", "dflash pull big", QUICK, 0, said.append)
