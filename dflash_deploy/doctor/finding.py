"""What the doctor says of one thing."""

from __future__ import annotations

from typing import Literal

import msgspec

from dflash_deploy.errors import DownloadError, EngineError, Unsupported

Area = Literal[
    "gpu", "engines", "docker", "hub", "disk", "caches", "limits", "command", "variables",
]  # fmt: skip
State = Literal["ok", "note", "problem"]
# an area's problem ends the doctor as it would end `dflash serve`
EXIT_CODES: dict[Area, int] = {
    "gpu": Unsupported.exit_code,
    "engines": EngineError.exit_code,
    "docker": EngineError.exit_code,
    "hub": DownloadError.exit_code,
    "disk": DownloadError.exit_code,
    "limits": Unsupported.exit_code,
}


class Finding(msgspec.Struct, frozen=True):
    """A problem keeps a server from starting; a note is worth knowing and keeps nothing."""

    area: Area
    state: State
    text: str
    remedy: str | None = None
    """The command that mends it, or what to do; None: nothing needs to be done."""

    @property
    def exit_code(self) -> int:
        return EXIT_CODES.get(self.area, 1) if self.state == "problem" else 0


def plain(said: object) -> str:
    """One line that steers no terminal: servers, drivers and variables are quoted in findings."""
    return "".join(sign if sign.isprintable() else " " for sign in str(said)).strip()
