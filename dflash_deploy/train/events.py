"""What the process that trains says to the one that asked for it: a JSON object a line."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Literal

import msgspec

from dflash_deploy.errors import DFlashError, Interrupted

Stage = Literal["load", "prompts", "answers", "train", "acceptance"]


class Stopped(Exception):
    """A stage ended before its end because it was asked to."""


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """`stage` with how far it is, the error that ended it all, or else what is to be known."""

    stage: Stage | None = None
    done: int = 0
    total: int = 0
    said: str = ""
    error: Failure | None = None


class Failure(msgspec.Struct, frozen=True):
    code: str
    exit_code: int
    message: str
    hint: str | None = None
    detail: str | None = None

    def as_error(self) -> DFlashError:
        """The error as it was raised over there."""
        error = DFlashError(self.message, hint=self.hint, detail=self.detail)
        error.code, error.exit_code = self.code, self.exit_code
        return error


def failure(error: DFlashError) -> Failure:
    return Failure(error.code, error.exit_code, error.message, error.hint, error.detail)


def interrupted(folder: Path, number: int = signal.SIGINT) -> Interrupted:
    """The error of a run that was asked to end, by this signal."""
    error = Interrupted(
        f"interrupted: what was done is in {folder}", hint="the same command goes on with it"
    )
    error.exit_code = 128 + number
    return error
