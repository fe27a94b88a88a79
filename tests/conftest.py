"""What every test shares: an environment that is nobody's, and the demo target's weights."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = ("judged", "docker_engine", "slurm")
"""Fixtures that take long to make: the tests of one of them run in one process."""

_LEAKS = ("DFLASH_API_KEY", "DFLASH_HOST", "HF_TOKEN", "HF_ENDPOINT", "NO_COLOR", "VLLM_API_KEY")


@pytest.fixture(autouse=True)
def _clean_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """No test sees the user's keys, hosts registry entries or engines."""
    for name in _LEAKS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))


@pytest.fixture(scope="session")
def demo_target() -> Path:
    """The demo pair's Q4_1 weights, fetched and converted once into the user's cache."""
    from dflash_deploy import hub
    from dflash_deploy.registry import load

    entry = load(user=False).find("smollm2-135m")
    weights = next(weights for weights in entry.target.weights if weights.name == "q4_1")
    return hub.fetch(hub.source(entry.id, weights))


@pytest.fixture(scope="session")
def demo_draft() -> Path:
    from dflash_deploy.resources import registry_root

    return registry_root() / "drafts" / "smollm2-135m-dflash"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="write the golden files anew")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Under `-n`, a file's tests stay together, and so do those of a fixture that costs much."""
    for item in items:
        shared = [name for name in SHARED if name in getattr(item, "fixturenames", ())]
        item.add_marker(pytest.mark.xdist_group(shared[0] if shared else item.path.name))
