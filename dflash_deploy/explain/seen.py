"""What the parts of a command are judged by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dflash_deploy.explain.serving import Serving


@dataclass(frozen=True)
class Seen:
    """A command, what the right one says, and what the rules speak of already."""

    serving: Serving
    planned: Mapping[str, tuple[str, ...]]
    """What the right command says, by meaning."""
    spoken: frozenset[str]
    """Settings that a rule refuses or warns of: its words are enough."""
