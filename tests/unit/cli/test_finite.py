"""An option that takes a number takes no `nan`, which is within every range, and no `inf`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import typer

from dflash_deploy.cli import app, main


def numbers(command: object, *path: str) -> Iterator[tuple[str, ...]]:
    """Each command and its option of a number with a fraction."""
    for name, below in getattr(command, "commands", {}).items():
        yield from numbers(below, *path, name)
    for each in getattr(command, "params", []):
        if each.type.name.startswith("float"):
            yield (*path, each.opts[0])


OPTIONS = [*numbers(typer.main.get_command(app))]


def test_there_are_such_options() -> None:
    assert ("verify", "--max-regret") in OPTIONS
    assert ("tune", "--temperature") in OPTIONS


@pytest.mark.parametrize("words", OPTIONS, ids=" ".join)
@pytest.mark.parametrize("value", ["nan", "inf"])
def test_what_is_no_number_is_refused(words: tuple[str, ...], value: str, capsys) -> None:
    *command, option = words
    # a model that is not there: nothing starts where the value is taken
    model = [] if command == ["top"] else ["no-such-model"]
    assert main([*command, *model, option, value]) == 2
    err = capsys.readouterr().err
    assert f"Invalid value for '{option}'" in err
    assert "Traceback" not in err
