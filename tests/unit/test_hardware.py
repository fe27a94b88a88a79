"""Cards by name, and cards that NVML reports."""

from __future__ import annotations

import sys
import types

import pytest

from dflash_deploy.errors import UsageError
from dflash_deploy.hardware import Hardware, parse, probe
from dflash_deploy.registry import load


@pytest.fixture(scope="module")
def gpus():
    return load(user=False).gpus


def fake_nvml(monkeypatch, cards, *, driver=True):
    class NVMLError(Exception):
        pass

    def init():
        if not driver:
            raise NVMLError

    nvml = types.SimpleNamespace(
        NVMLError=NVMLError,
        nvmlInit=init,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetCount=lambda: len(cards),
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetName=lambda index: cards[index][0],
        nvmlDeviceGetMemoryInfo=lambda index: types.SimpleNamespace(total=cards[index][1] * 2**30),
    )
    monkeypatch.setitem(sys.modules, "pynvml", nvml)


@pytest.mark.parametrize("text", ["H100", "h100:1"])
def test_one_card_by_name(gpus, text):
    hardware = parse(text, gpus)
    assert [card.name for card in hardware.cards] == ["H100"]
    assert (hardware.architecture, hardware.memory_gib) == ("hopper", 80)


def test_several_cards(gpus):
    assert len(parse("RTX-3090:2", gpus).cards) == 2


@pytest.mark.parametrize(
    "text", ["H1000", "H100:0", "H100:two", "", "H100:²", "H100:99999999999999"]
)
def test_what_is_no_card_is_a_usage_error_with_a_hint(gpus, text):
    with pytest.raises(UsageError) as caught:
        parse(text, gpus)
    assert "H100" in caught.value.hint


@pytest.mark.parametrize(
    ("reported", "known", "architecture"),
    [
        ("NVIDIA H100 80GB HBM3", "H100", "hopper"),
        ("NVIDIA A100-SXM4-40GB", "A100-40", "ampere"),
        ("NVIDIA A100-SXM4-80GB", "A100", "ampere"),
        ("NVIDIA GeForce RTX 5090", "RTX-5090", "blackwell-rtx"),
        ("NVIDIA L40S", "L40S", "ada"),
        ("NVIDIA GH200 480GB", "GH200", "hopper"),
        ("NVIDIA T400", "NVIDIA T400", None),
    ],
)
def test_nvml_names_are_recognised(monkeypatch, gpus, reported, known, architecture):
    fake_nvml(monkeypatch, [(reported, 80)])
    hardware = probe(gpus)
    assert hardware.origin == "found"
    assert (hardware.cards[0].name, hardware.architecture) == (known, architecture)


def test_no_driver_and_no_card_are_normal(monkeypatch, gpus):
    fake_nvml(monkeypatch, [], driver=False)
    assert probe(gpus) == Hardware()
    fake_nvml(monkeypatch, [])
    assert probe(gpus) == Hardware()


def test_mixed_cards_have_no_architecture_and_the_smallest_memory(monkeypatch, gpus):
    fake_nvml(monkeypatch, [("NVIDIA H100", 80), ("NVIDIA GeForce RTX 4090", 24)])
    hardware = probe(gpus)
    assert (hardware.architecture, hardware.memory_gib) == (None, 24)


def test_a_name_that_only_begins_like_a_known_one_is_unknown(monkeypatch, gpus):
    fake_nvml(monkeypatch, [("NVIDIA L40", 48)])
    assert probe(gpus).architecture is None


def test_a_16_gb_card_holds_what_is_published_for_16_gb(gpus):
    from dflash_deploy.choose import choose_tensor_parallel
    from dflash_deploy.hardware import Card
    from dflash_deploy.request import Request

    entry = load(user=False).find("gpt-oss-20b")
    card = Hardware((Card("RTX", None, 15.99),), "found")
    wish = Request(model="gpt-oss-20b", engine="vllm")
    assert choose_tensor_parallel(entry, wish, card)[0] == 1
