"""What an engine's log lines say: how far its start-up is, and why it died. The lines are data."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from dflash_deploy.engine_schema import Engine, Failure
from dflash_deploy.reach import within

_ERROR = re.compile(
    r"(?:^|[\s(])[\w.]*(?:Error|Exception)\b: ?\S|\berror: \S|^ *(?:Value|Assertion) error, \S"
)
"""The last: as pydantic tells one, below the line that counts its errors."""
_INPUT = re.compile(r" \[type=\w+, input_value=.*")
_POINTS = re.compile(
    r"Engine core initialization failed|[Ss]ee root cause above|stack trace (?:\(above\)|above)"
    r"|[Ss]ee stack trace for root cause|RuntimeError: cancelled$"
    r"|scheduler died during initialization"
)
"""What only follows from another error; `cancelled`: vLLM's queue to a worker that is gone."""
_LEAVING = re.compile(
    r"^nanobind: |^ - (?:leaked |\.\.\. skipped)|^See https://nanobind"
    r"|resource_tracker: There appear|^ +warnings\.warn\("
)


@dataclass(frozen=True)
class Signs:
    """The signs of one release, ready to be looked for; without any, no line says anything."""

    phases: tuple[tuple[str, re.Pattern[str]], ...] = ()
    failures: tuple[tuple[re.Pattern[str], Failure], ...] = ()

    def phase_of(self, line: str) -> str | None:
        """The phase a log line belongs to; None where it does not say."""
        return next((name for name, sign in self.phases if sign.search(line)), None)

    def last_phase(self, lines: Iterable[str]) -> str | None:
        """How far the start-up was when the last of these lines was written."""
        found = [name for line in lines if (name := self.phase_of(line))]
        return found[-1] if found else None

    def cause(self, lines: Iterable[str]) -> tuple[str, Failure] | None:
        """The line that gives a known failure away, and that failure."""
        given = tuple(lines)
        last = last_error(given)
        for sign, failure in self.failures:
            for line in reversed(given):
                if sign.search(line) and (line == last or not failure.alone):
                    return line, failure
        return None


def signs(engine: Engine, version: str) -> Signs:
    """Those that hold for a release of the engine; none for a version that is not known."""
    try:
        release = Version(version)
    except InvalidVersion:
        return Signs()
    return Signs(
        tuple((s.phase, re.compile(s.says)) for s in engine.phases if within(s.versions, release)),
        tuple((re.compile(f.says), f) for f in engine.failures if within(f.versions, release)),
    )


def last_error(lines: Iterable[str]) -> str | None:
    """The last line that reads like an error, one that points at another only if none else does."""
    found = [line for line in lines if _ERROR.search(line)]
    return next(reversed([line for line in found if not points(line)] or found), None)


def points(line: str) -> bool:
    """Whether an error only follows from another one."""
    return _POINTS.search(line) is not None


def without_leavings(lines: Iterable[str]) -> tuple[str, ...]:
    """Without what Python and its extensions count when any process of an engine leaves."""
    return tuple(line for line in lines if not _LEAVING.search(line))


def error_in(line: str) -> str:
    """What such a line says, without what its logger wrote before it and pydantic behind it."""
    found = _ERROR.search(line)
    return _INPUT.sub("", line[found.start() :].lstrip(" (")) if found else line
