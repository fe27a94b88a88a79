from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from dflash_deploy.plan import Endpoint
from dflash_deploy.schema import EngineName
from tests.fakes import install_fakes
from tests.fakes.plans import TARGET, plan

Serve = Callable[..., Endpoint]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Start a fake engine with its knobs as keywords; where it answers."""
    install_fakes(tmp_path)
    running: list[subprocess.Popen[bytes]] = []

    def run(
        engine: EngineName,
        version: str | None = None,
        *,
        speculate: bool = True,
        flags: tuple[str, ...] = (),
        key_env: str | None = None,
        **knobs: object,
    ) -> Endpoint:
        a_plan = plan(engine, extra=flags)
        argv = a_plan.argv if speculate else without_speculation(a_plan.argv)
        environ = os.environ | {f"FAKE_ENGINE_{name}": str(value) for name, value in knobs.items()}
        if version:
            environ["FAKE_ENGINE_VERSION"] = version
        running.append(
            subprocess.Popen(
                [str(tmp_path / argv[0]), *argv[1:]], env=environ, stderr=subprocess.DEVNULL
            )
        )
        until_healthy(f"{a_plan.base_url}/health", running[-1])
        return Endpoint(a_plan.base_url, TARGET, engine, version, key_env)

    yield run
    for process in running:
        process.kill()
        process.wait()


def without_speculation(argv: tuple[str, ...]) -> tuple[str, ...]:
    first = next(i for i, word in enumerate(argv) if word.startswith("--speculative"))
    return argv[:first]


def until_healthy(url: str, process: subprocess.Popen[bytes]) -> None:
    with httpx.Client(trust_env=False) as client:
        while True:
            assert process.poll() is None, "the fake engine ended"
            try:
                if client.get(url).status_code == 200:
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.02)
