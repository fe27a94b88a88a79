"""Cards as the kernel's PCI tree shows them, with or without a driver."""

from __future__ import annotations

from pathlib import Path

SYS = Path("/sys")
NVIDIA, AMD = "0x10de", "0x1002"
# display controllers, and the class that AMD's Instinct cards have: processing accelerators
CLASSES = ("0x03", "0x12")


def cards(vendor: str, root: Path = SYS) -> list[Path]:
    """The device folders of a vendor's cards, in PCI order; none where there is no such tree."""
    try:
        devices = sorted((root / "bus/pci/devices").iterdir())
    except OSError:
        return []  # a sandbox, or no Linux
    return [
        device
        for device in devices
        if content(device / "vendor") == vendor
        and (content(device / "class") or "").startswith(CLASSES)
    ]


def content(path: Path) -> str | None:
    """A sysfs file holds one line; it may be absent, unreadable or empty."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None


def number(path: Path) -> int | None:
    found = content(path)
    return int(found) if found and found.isascii() and found.isdecimal() else None
