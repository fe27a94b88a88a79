"""Several questions at once, each of which may hang: there is one deadline for all."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")
DEADLINE = 5.0
"""Seconds for all of them together."""


class Answer(msgspec.Struct, Generic[T], frozen=True):
    """What was found out; None with the reason why not."""

    value: T | None = None
    why: str | None = None


def gather(
    probes: Mapping[str, Callable[[], Any]], deadline: float = DEADLINE
) -> dict[str, Answer[Any]]:
    """Ask all at once. The threads are daemons: a name server that is silent keeps nobody here."""
    answers: dict[str, Answer[Any]] = {}

    def ask(name: str, probe: Callable[[], Any]) -> None:
        try:
            answers[name] = Answer(probe())
        except Exception as error:  # noqa: BLE001  # one broken part of a machine hides no other
            answers[name] = Answer(why=f"{type(error).__name__}: {error}")

    threads = [
        threading.Thread(target=ask, args=item, name=item[0], daemon=True)
        for item in probes.items()
    ]
    until = time.monotonic() + deadline
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    late = Answer[Any](why=f"no answer within {deadline:g} s")
    return {name: answers.get(name, late) for name in probes}
