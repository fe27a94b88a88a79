"""Commits that nobody has read, for plans that nobody serves.

A target that runs code of its own is planned at a commit alone. Where the registry knows none, a
check of its command stands one in.
"""

from __future__ import annotations

from packaging.version import Version

from dflash_deploy.registry import Entry, Registry
from dflash_deploy.schema import Draft, EngineName
from dflash_deploy.situation import flag_for

COMMIT = "0123456789" * 4


def pins(
    registry: Registry, entry: Entry, draft: Draft, name: EngineName, version: str
) -> tuple[str, ...]:
    """What to say after `--`; nothing where no code is run, or the registry knows the commits."""
    if entry.target.remote_code != "required":
        return ()
    engine, release = registry.engines[name], Version(version)
    known = {"revision": entry.target.weights[0].revision, "draft_revision": draft.revision}
    return tuple(
        word
        for setting, revision in known.items() if revision is None
        for word in (flag_for(engine, setting, release) or "", COMMIT)
    )  # fmt: skip
