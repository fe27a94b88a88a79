"""Packs the registry's YAML into the index that an installed package reads instead of it."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_IN_WHEEL = "dflash_deploy/_data/registry/index.json"


class RegistryIndexHook(BuildHookInterface[Any]):
    """Writes the index to a temporary folder: one in the checkout would hide later edits."""

    _folder: tempfile.TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the index to a wheel. An editable install reads the checkout's own YAML."""
        if version == "editable":
            return
        self._folder = tempfile.TemporaryDirectory(prefix="dflash-index-")
        index = Path(self._folder.name) / "index.json"
        index.write_bytes(_packed(Path(self.root)))
        build_data["force_include"][str(index)] = _IN_WHEEL

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the temporary folder."""
        del version, build_data, artifact_path
        if self._folder is not None:
            self._folder.cleanup()


def _packed(root: Path) -> bytes:
    """The registry as one JSON document, by the same reader that the package has."""
    sys.path.insert(0, str(root))
    try:
        import msgspec

        from dflash_deploy.registry import pack

        return msgspec.json.encode(pack(root / "registry"))
    finally:
        sys.path.remove(str(root))
