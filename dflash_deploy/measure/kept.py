"""Plain decoding's answers of a verification that did not come to its end, one a line of a file.

The file's name is a digest of everything those answers follow from, so that the same command goes
on with them and no other does. DFlash's are asked again: the counters beside them are of one run.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from dflash_deploy.errors import unread
from dflash_deploy.measure.questions import Question
from dflash_deploy.measure.report import Setting
from dflash_deploy.measure.resuming import portless, same_machine
from dflash_deploy.measure.told import Said

FORM = 1
"""Of a line. Another one is another file."""
FORGOTTEN = 7 * 86400
"""Seconds after which a verification that nobody went on with is none any more."""


class _Line(msgspec.Struct, frozen=True, array_like=True):
    number: int
    said: Said


def digest(before: Setting, questions: Sequence[Question]) -> str:
    """Of what is asked of which server where; the draft is no part of plain decoding."""
    plain = [(portless(arm.argv), arm.env) for arm in before.arms if arm.method == "plain"]
    modes = [workload.thinking for workload in before.workloads]
    machine = before.machine
    followed = (
        FORM, before.model, before.weights, before.engine, before.version, plain, before.seed,
        before.temperature, modes, questions, same_machine(machine), machine.hardware.driver,
    )  # fmt: skip
    packed = msgspec.json.encode(followed, order="deterministic")
    return hashlib.sha256(packed).hexdigest()[:16]


@dataclass
class Kept:
    """`trouble`: why nothing more is kept, once writing failed."""

    path: Path
    trouble: str | None = None

    def read(self) -> dict[int, Said]:
        """By the question's number. A line that was cut off is no answer."""
        found = {}
        with suppress(OSError):
            self._forget_old()
            for line in self.path.read_bytes().splitlines():
                with suppress(msgspec.MsgspecError, UnicodeDecodeError):
                    one = msgspec.json.decode(line, type=_Line)
                    found[one.number] = one.said
        return found

    def add(self, number: int, said: Said) -> None:
        if self.trouble:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            with os.fdopen(file, "wb") as stream:
                # begun with an end, so that it stands apart from one that was cut off
                stream.write(b"\n" + msgspec.json.encode(_Line(number, said)))
        except OSError as error:
            self.trouble = unread(error)

    def forget(self) -> None:
        with suppress(OSError):
            self.path.unlink(missing_ok=True)

    def _forget_old(self) -> None:
        for each in self.path.parent.glob(f"*{self.path.suffix}"):
            if each.stat().st_mtime < time.time() - FORGOTTEN:
                each.unlink(missing_ok=True)
