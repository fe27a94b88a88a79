"""Options that are floats, of every command: click's ranges let nan through, and inf."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer

from dflash_deploy.cli import app, main


def floats(command: Any, *path: str) -> Iterator[tuple[str, ...]]:
    """Each such option, behind the words of its command."""
    for name, part in getattr(command, "commands", {}).items():
        yield from floats(part, *path, name)
    for option in command.params:
        if "float" in option.type.name:
            yield (*path, option.opts[0])


OPTIONS = list(floats(typer.main.get_command(app)))


def test_there_are_some() -> None:
    assert ("top", "--interval") in OPTIONS
    assert ("serve", "--timeout") in OPTIONS


@pytest.mark.parametrize("words", OPTIONS, ids=" ".join)
@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_what_is_no_number_is_refused(
    words: tuple[str, ...], value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, value]) == 2
    assert words[-1] in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [("top", "--interval"), ("verify", "--request-timeout"), ("bench", "--request-timeout")],
)
def test_more_seconds_than_a_system_call_takes_are_refused(words: tuple[str, ...]) -> None:
    assert main([*words, "1e300"]) == 2
