"""Which of the machine's cards a container gets: those that CUDA_VISIBLE_DEVICES leaves, by UUID."""

from __future__ import annotations

import msgspec
import pytest

from dflash_deploy.cli._boxed import on_own_cards
from dflash_deploy.container import container
from dflash_deploy.hardware import probe
from tests.fakes.machines import uuid
from tests.fakes.nvml import install
from tests.unit.render.exported import REGISTRY, planned

PLAN = planned("gpt-oss-20b", "vllm", "H100:2", tensor_parallel=2)
BOX = container(PLAN, REGISTRY.engines["vllm"])


@pytest.mark.parametrize("said", ["5,2", f"{uuid(0x6000)},{uuid(0x3000)}"])
def test_cards_that_were_named_are_those_this_process_may_use(
    monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    install(monkeypatch, "8xh100")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", said)

    found = msgspec.structs.replace(PLAN, hardware=probe(REGISTRY.gpus))
    on_found = container(found, REGISTRY.engines["vllm"])

    named = on_own_cards(BOX, PLAN, REGISTRY.gpus)
    assert named.devices == on_found.devices == (uuid(0x6000), uuid(0x3000))
    assert on_own_cards(on_found, found, REGISTRY.gpus) is on_found


def test_where_no_card_is_found_docker_counts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "none")

    assert on_own_cards(BOX, PLAN, REGISTRY.gpus).devices == ()
