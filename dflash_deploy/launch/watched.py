"""What the wait for a server and the end of one need to know of it, wherever it runs."""

from __future__ import annotations

from typing import Protocol

from dflash_deploy.launch.signs import Signs
from dflash_deploy.schema import EngineName


class Starting(Protocol):
    """A server that is about to be ready: an engine of this process, or one that outlives it."""

    engine: EngineName
    signs: Signs
    stop_asked: bool

    @property
    def phase(self) -> str | None: ...

    @property
    def tail(self) -> tuple[str, ...]: ...

    def poll(self) -> int | None: ...


class Server(Starting, Protocol):
    """And one that can be waited for and ended."""

    def wait(self, timeout: float | None = None) -> int: ...

    def terminate(self) -> None: ...

    def kill(self) -> None: ...
