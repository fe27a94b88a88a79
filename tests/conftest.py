"""What every test shares: an environment that is nobody's, and the demo target's weights."""

from __future__ import annotations

import os
import re
import signal
from functools import cache
from pathlib import Path
from typing import Any

import pytest

# torch's threads wait for one another by spinning: two test processes would spin for all they have
os.environ.setdefault("GOMP_SPINCOUNT", "10000")

# a shell that runs the tests behind itself has them ignore Ctrl-C, and so would all that they start
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).parents[1]
COSTLY = ("judged", "docker_engine")
"""Fixtures for the whole run that take long to make."""

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


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Under `-n`, a file's tests run in one process, and so do all of a fixture that costs much."""
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return _shared(nodeid.partition("::")[0])

    return Together(config, log)


@cache
def _shared(file: str) -> str:
    """The costly fixture that a test file asks for, else the file itself."""
    asked = re.search(rf"def \w+\([^)]*\b({'|'.join(COSTLY)})\b", (ROOT / file).read_text())
    return asked[1] if asked else file
