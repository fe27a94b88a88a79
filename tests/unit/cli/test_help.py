"""What `--help` says of the commands, and that the docs type none that is not there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from dflash_deploy.cli import app

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
TYPED = re.compile(r"(?:^\$ |^ {4}|`|&& )dflash ([a-z][^`#|>&\n]*)", re.MULTILINE)
TOP: Any = typer.main.get_command(app)


def every(of: Any, name: str = "dflash") -> Iterator[Any]:
    yield pytest.param(of, id=name)
    for child, command in getattr(of, "commands", {}).items():
        yield from every(command, f"{name} {child}")


@pytest.mark.parametrize("command", [*every(TOP)])
def test_on_80_columns_nothing_is_cut_short_or_too_wide(command) -> None:
    told = command.get_help(command.context_class(command, info_name="dflash", terminal_width=80))
    assert [line for line in told.splitlines() if len(line) > 80] == []
    _, _, commands = told.partition("Commands:")
    assert [line for line in commands.splitlines() if line.endswith("...")] == []


def test_list_takes_every_engine_unless_told() -> None:
    """Other commands take the entry's first."""
    (option,) = [each for each in TOP.commands["list"].params if "--engine" in each.opts]
    assert option.help == "Only what it serves."


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_docs_type_commands_and_options_that_are_there(page: Path) -> None:
    text = page.read_text().replace("\\\n", " ")
    assert [*filter(None, map(unknown, TYPED.findall(text)))] == []


def unknown(typed: str) -> str | None:
    """The first word of a command line that the command line does not know."""
    words, command = typed.partition(" -- ")[0].split(), TOP
    while words and hasattr(command, "commands"):
        for each in (name := words.pop(0)).split("/"):
            if each not in command.commands:
                return f"{each}, of: dflash {typed}"
        command = command.commands[name.partition("/")[0]]
        if words[:1] == ["/"]:  # `dflash ps / top / logs / stop` tells of four
            return None
    known = {flag for param in command.params for flag in (*param.opts, *param.secondary_opts)}
    said = (word.partition("=")[0] for word in words if word.startswith("-") and word != "--")
    return next((f"{flag}, of: dflash {typed}" for flag in said if flag not in known), None)
