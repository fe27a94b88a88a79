"""One command, explained with the shipped registry."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dflash_deploy.explain.report import Report, reports
from dflash_deploy.explain.shell import from_text
from dflash_deploy.hardware import parse as cards
from dflash_deploy.registry import Registry, load

Explain = Callable[..., Report]


@pytest.fixture(scope="session")
def shipped() -> Registry:
    return load(user=False)


@pytest.fixture
def explain(shipped: Registry) -> Explain:
    def one(text: str, gpu: str = "H100:8", version: str | None = None) -> Report:
        (report,) = reports(from_text(text), shipped, version, cards(gpu, shipped.gpus))
        return report

    return one


@pytest.fixture
def said(explain: Explain) -> Callable[..., dict[str, str]]:
    def verdicts(text: str, gpu: str = "H100:8", version: str | None = None) -> dict[str, str]:
        return {item.part: item.verdict for item in explain(text, gpu, version).findings}

    return verdicts
