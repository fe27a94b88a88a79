"""AMD cards in a sysfs made for the test."""

from __future__ import annotations

from pathlib import Path

import pytest

from dflash_deploy import amd, pci
from dflash_deploy.amd import AmdCard

GIB = 2**30


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """One MI300X with its driver."""
    device = tmp_path / "bus/pci/devices/0000:05:00.0"
    (device / "drm/renderD128").mkdir(parents=True)
    (device / "drm/card1").mkdir()
    files = {
        "vendor": pci.AMD,
        "class": "0x120000",
        "device": "0x74a1",
        "product_name": "AMD Instinct MI300X OAM",
        "unique_id": "fc5f1ee88ef2abcd",
        "mem_info_vram_total": str(192 * GIB),
        "mem_info_vram_used": str(2 * GIB),
    }
    for name, content in files.items():
        (device / name).write_text(content + "\n")
    node = tmp_path / "class/kfd/kfd/topology/nodes/1"
    node.mkdir(parents=True)
    (node / "properties").write_text("gfx_target_version 90402\ndrm_render_minor 128\n")
    cpu = tmp_path / "class/kfd/kfd/topology/nodes/0"
    cpu.mkdir()
    (cpu / "properties").write_text("gfx_target_version 0\ndrm_render_minor 0\n")
    (tmp_path / "module/amdgpu").mkdir(parents=True)
    (tmp_path / "module/amdgpu/version").write_text("6.12.12\n")
    return tmp_path


def test_a_card_with_its_driver_is_told_whole(machine):
    assert amd.read(machine) == (
        AmdCard("AMD Instinct MI300X OAM", "gfx942", 192, 190, "fc5f1ee88ef2abcd", "6.12.12"),
    )


def test_without_the_driver_there_is_a_card_and_no_more(machine):
    device = machine / "bus/pci/devices/0000:05:00.0"
    for path in [*device.glob("mem_*"), device / "product_name", device / "unique_id"]:
        path.unlink()
    (device / "drm/renderD128").rmdir()
    assert amd.read(machine) == (AmdCard("AMD card 0x74a1"),)


def test_the_kernels_own_driver_has_no_version(machine):
    (machine / "module/amdgpu/version").unlink()
    assert amd.read(machine)[0].driver == "amdgpu of the kernel"


def test_no_card_is_the_normal_case(tmp_path):
    assert amd.read(tmp_path) == ()


@pytest.mark.parametrize(
    ("version", "gfx"), [(90402, "gfx942"), (90010, "gfx90a"), (110000, "gfx1100")]
)
def test_targets_are_written_as_compilers_do(version, gfx):
    assert amd._gfx(version) == gfx
