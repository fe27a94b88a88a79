"""What some cards hold at this moment, and what contexts and loads take of them."""

from __future__ import annotations

import pytest

from dflash_deploy.errors import UsageError
from dflash_deploy.fits import fitting, memory_table
from dflash_deploy.hardware import Card, Hardware, parse
from dflash_deploy.registry import load

REGISTRY = load(user=False)
ENTRIES = list(REGISTRY.entries.values())


def names(hardware: Hardware, engine=None) -> set[str]:
    return {each.model for each in fitting(REGISTRY, ENTRIES, hardware, engine)}


def test_more_memory_never_holds_less() -> None:
    held: set[str] = set()
    for gpu in ("L4", "L40S", "H100", "H200", "B300"):
        now = names(parse(gpu, REGISTRY.gpus), "vllm")
        assert held <= now, gpu
        held = now


def test_what_others_hold_of_a_card_is_not_offered() -> None:
    def h100(free: float) -> Hardware:
        return Hardware((Card("H100", "hopper", 80, free_gib=free, reserved_gib=0.8),), "found")

    assert "qwen3-8b" in names(h100(79.2), "vllm")
    assert "qwen3-8b" not in names(h100(10.0), "vllm")


def test_without_a_card_the_embedded_engine_takes_what_the_memory_holds() -> None:
    held = names(Hardware())
    assert "smollm2-135m" in held
    assert "qwen3.5-397b" not in held


def test_a_table_grows_with_context_and_load() -> None:
    table = memory_table(REGISTRY, "qwen3-8b", "vllm", parse("H100", REGISTRY.gpus))
    by_load = [[cell.gib for cell in row] for row in table.cells]
    assert all(row == sorted(row) for row in by_load)
    assert all(list(column) == sorted(column) for column in zip(*by_load, strict=True))
    assert table.cells[0][0].fits
    assert not table.cells[-1][-1].fits
    assert list(table.contexts) == sorted(table.contexts)


def test_no_estimate_is_told() -> None:
    with pytest.raises(UsageError, match="no estimate for muse-spark"):
        memory_table(REGISTRY, "muse-spark", None, parse("B200:8", REGISTRY.gpus))
