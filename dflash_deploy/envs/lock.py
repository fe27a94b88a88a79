"""What uv resolved: every package of an environment, pinned, with its size where it is told."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

UNPACKED = 2.4
"""Bytes on the disk for one downloaded: 2.1 for vLLM 0.26.0, 2.35 for SGLang 0.5.23."""


@dataclass(frozen=True)
class Lock:
    sizes: dict[str, int]
    """Bytes to download by package; 0 where the index does not say."""

    @property
    def download(self) -> int:
        return sum(self.sizes.values())

    @property
    def unpacked(self) -> int:
        return int(self.download * UNPACKED)


def read(path: Path) -> Lock:
    """A pylock.toml (PEP 751)."""
    with path.open("rb") as file:
        document = tomllib.load(file)
    return Lock({package["name"]: _size(package) for package in document.get("packages", [])})


def _size(package: dict[str, Any]) -> int:
    """Of its largest wheel that fits here, or of its source."""
    files = package.get("wheels") or [package.get("sdist") or package.get("archive") or {}]
    return max(int(file.get("size") or 0) for file in files)
