"""How the wait for a server looks: one line that is drawn again, or a line a phase."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from dflash_deploy.cli import _output


class Waiting:
    """Called again and again with the phase and the seconds so far.

    `alone`: nothing else is printed meanwhile, so that a terminal has a line to draw over.
    """

    def __init__(self, *, alone: bool) -> None:
        self._draws = alone and _output.redraws()
        self._phase: str | None = None

    def __call__(self, phase: str | None, seconds: float) -> None:
        if self._draws:
            _output.status(f"{phase or 'starting'} ... {seconds:.0f} s")
        elif phase and phase != self._phase:
            _output.phase(phase)
        self._phase = phase

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self._draws:
            _output.status("")
