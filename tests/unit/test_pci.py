"""The kernel's PCI tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from dflash_deploy import pci


def device(root: Path, slot: str, vendor: str, kind: str) -> Path:
    folder = root / "bus/pci/devices" / slot
    folder.mkdir(parents=True)
    (folder / "vendor").write_text(vendor + "\n")
    (folder / "class").write_text(kind + "\n")
    return folder


def test_a_vendors_cards_and_nothing_else_of_it(tmp_path):
    device(tmp_path, "0000:05:00.0", pci.NVIDIA, "0x030000")
    device(tmp_path, "0000:05:00.1", pci.NVIDIA, "0x040300")  # its sound
    device(tmp_path, "0000:04:00.0", pci.NVIDIA, "0x030200")
    device(tmp_path, "0000:07:00.0", pci.NVIDIA, "0x068000")  # an NVSwitch
    device(tmp_path, "0000:08:00.0", "0x8086", "0x030000")
    assert [card.name for card in pci.cards(pci.NVIDIA, tmp_path)] == [
        "0000:04:00.0",
        "0000:05:00.0",
    ]


def test_no_tree_is_no_card(tmp_path):
    assert pci.cards(pci.NVIDIA, tmp_path / "absent") == []


def test_a_device_that_says_nothing_is_no_card(tmp_path):
    (tmp_path / "bus/pci/devices/0000:01:00.0").mkdir(parents=True)
    assert pci.cards(pci.NVIDIA, tmp_path) == []


@pytest.mark.parametrize(("said", "number"), [("12\n", 12), ("", None), ("0x1f", None)])
def test_only_a_number_is_a_number(tmp_path, said, number):
    (tmp_path / "file").write_text(said)
    assert pci.number(tmp_path / "file") == number


def test_a_file_that_cannot_be_read_is_none(tmp_path):
    assert pci.content(tmp_path) is None
    assert pci.content(tmp_path / "absent") is None
