"""Every failure a user can meet, its exit code, and the next command to type.

    DFlashError                   1   a bug, or something nobody foresaw
    ├── UsageError                2   the command line asks for something that has no meaning
    │   └── ContextFull           2   a server's context has no room for what is asked of it
    ├── RegistryError             3   the registry cannot be read, or an entry in it is invalid
    │   └── UnknownModel          3   no target, alias or draft of that name
    ├── Unsupported               4   known, but this combination does not work
    │   └── DoesNotFit            4   too few cards, or too small ones
    ├── EngineError               5   the engine is missing, broken or of the wrong release
    ├── DownloadError             6   weights could not be fetched, or are not what they should be
    ├── LaunchError               7   the server did not become healthy, or died
    │   └── PortTaken             7   another program listens where the server should
    └── GateFailed                8   the server runs, but fails what was asked of it (acceptance)
    Interrupted                 130   Ctrl-C

`message` is one line that says what is wrong; `hint` is the next command to type, or the next thing
to change; `detail` is evidence worth reading (the last lines of a dead engine, say).
"""

from __future__ import annotations


class DFlashError(Exception):
    """The root: caught once, in `cli.main`, and printed as an error, its detail and its hint."""

    exit_code: int = 1
    code: str = "internal"

    def __init__(self, message: str, *, hint: str | None = None, detail: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.detail = detail


class UsageError(DFlashError):
    exit_code = 2
    code = "usage"


class ContextFull(UsageError):
    """More tokens than a server's context holds; `code` is that of its parent."""


class RegistryError(DFlashError):
    exit_code = 3
    code = "registry"


class UnknownModel(RegistryError):
    code = "unknown_model"


class Unsupported(DFlashError):
    exit_code = 4
    code = "unsupported"


class DoesNotFit(Unsupported):
    """Too few cards, or too small ones; `code` is that of its parent."""


class EngineError(DFlashError):
    exit_code = 5
    code = "engine"


class DownloadError(DFlashError):
    exit_code = 6
    code = "download"


class LaunchError(DFlashError):
    exit_code = 7
    code = "launch"


class PortTaken(LaunchError):
    code = "port_taken"


class GateFailed(DFlashError):
    exit_code = 8
    code = "gate"


class Interrupted(DFlashError):
    exit_code = 130
    code = "interrupted"


def unread(error: OSError | UnicodeDecodeError) -> str:
    """Why a file could not be read, without the number and the name that Python puts around it."""
    return str(getattr(error, "strerror", None) or error)
