"""AMD cards, from sysfs: reported as found. No engine is planned for them."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from dflash_deploy import pci

GIB = 2**30


class AmdCard(msgspec.Struct, frozen=True):
    """None where the kernel does not say: without the amdgpu driver there is a name and no more."""

    name: str
    gfx: str | None = None
    memory_gib: float | None = None
    free_gib: float | None = None
    uuid: str | None = None
    driver: str | None = None


def read(root: Path = pci.SYS) -> tuple[AmdCard, ...]:
    """Every AMD card on the PCI bus; an empty tuple is the normal case."""
    found = pci.cards(pci.AMD, root)
    targets = _targets(root) if found else {}
    return tuple(_card(device, targets, _driver(root)) for device in found)


def _card(device: Path, targets: dict[str, str], driver: str | None) -> AmdCard:
    total = pci.number(device / "mem_info_vram_total")
    used = pci.number(device / "mem_info_vram_used")
    free = total - used if total is not None and used is not None else None
    unique = pci.content(device / "unique_id")
    return AmdCard(
        # only server cards carry a product name
        name=pci.content(device / "product_name")
        or f"AMD card {pci.content(device / 'device') or device.name}",
        gfx=next((targets[minor] for minor in _render_minors(device) if minor in targets), None),
        memory_gib=None if total is None else total / GIB,
        free_gib=None if free is None else free / GIB,
        uuid=unique,
        driver=driver if total is not None else None,
    )


def _driver(root: Path) -> str | None:
    """The amdgpu module has a version of its own only where AMD's package installed it."""
    module = root / "module/amdgpu"
    if version := pci.content(module / "version"):
        return version
    return "amdgpu of the kernel" if module.is_dir() else None


def _render_minors(device: Path) -> list[str]:
    return [path.name.removeprefix("renderD") for path in device.glob("drm/renderD*")]


def _targets(root: Path) -> dict[str, str]:
    """Render node -> gfx target, from the compute driver's topology."""
    found = {}
    for properties in root.glob("class/kfd/kfd/topology/nodes/*/properties"):
        said = dict(re.findall(r"^(\w+) (\d+)$", pci.content(properties) or "", re.MULTILINE))
        if int(said.get("gfx_target_version", 0)):
            found[said.get("drm_render_minor", "")] = _gfx(int(said["gfx_target_version"]))
    return found


def _gfx(version: int) -> str:
    """90402 is gfx942 and 90010 is gfx90a: the last two digits are written as one hexadecimal."""
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"
