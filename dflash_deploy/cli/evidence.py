"""`dflash registry evidence`: what a benchmark found, written into the user's own registry."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dflash_deploy.cli import _output
from dflash_deploy.cli._options import JsonOpt

if TYPE_CHECKING:
    from dflash_deploy.measure.evidence import MadeEvidence
    from dflash_deploy.registry import Registry

app = typer.Typer(
    help="Benchmarks of your own: a recipe's status follows from them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def _root() -> None:
    """A group even with one command in it."""


@app.command("add")
def add(
    report: Annotated[Path, typer.Argument(help="What `dflash bench` wrote.")],
    *,
    weights: Annotated[
        str | None, typer.Option(help="Which weights of the target ran. Default: its first.")
    ] = None,
    registry: Annotated[
        Path | None, typer.Option(help="The registry folder to write to. Default: your own.")
    ] = None,
    show: Annotated[bool, typer.Option("--print", help="Print the file, write nothing.")] = False,
    json: JsonOpt = False,
) -> None:
    """Take the figures of REPORT as evidence for its entry. Shipped fixes to it still arrive."""
    from dflash_deploy.cli import _entry_file
    from dflash_deploy.entry_yaml import as_yaml
    from dflash_deploy.errors import UsageError
    from dflash_deploy.measure.evidence import evidence_of
    from dflash_deploy.measure.results import read
    from dflash_deploy.registry import user_folder

    found = read(report)
    known = _entry_file.below(registry)
    entry = known.find(found.model)
    made = evidence_of(found, entry, weights, report)
    text = as_yaml(made.model, _comments(report))
    file = (registry or user_folder()) / made.file
    if not show:
        with _entry_file.in_place_of(file) as earlier:
            if earlier is not None and all(each.source in earlier for each in made.model.evidence):
                raise UsageError(
                    f"{report} is evidence already: {file}", hint=f"dflash show {entry.name}"
                )
            _entry_file.write(file, text, registry, lambda after: _prove(after, entry.id, made))
        if earlier is not None:
            _output.note("what was taken from this benchmark before it went on is replaced")
    for line in made.notes:
        _output.warning(line)
    if json:
        _output.json({"file": None if show else str(file), "target": entry.id,
                      "notes": made.notes, "entry": made.model})  # fmt: skip
    else:
        _output.text(text.rstrip("\n") if show else str(file))
    if not show:
        _output.note(f"next: {shlex.join(('dflash', 'show', entry.name))}")


def _prove(registry: Registry, target: str, made: MadeEvidence) -> None:
    """Whether it stands in the entry now, and the entry is sound with it."""
    from dflash_deploy.errors import RegistryError
    from dflash_deploy.validate import problems

    entry = registry.find(target)
    for problem in problems([entry], registry.engines):
        raise RegistryError(f"{problem.where}: {problem.message}")
    if any(each not in entry.model.evidence for each in made.model.evidence):
        raise RegistryError(f"{entry.files[0]} takes the place of {target}, and does not extend it")


def _comments(report: Path) -> Iterator[str]:
    today = datetime.now(UTC).date()
    yield f"Written by `dflash registry evidence add` on {today} from {report.name}."
    yield "The entry that it extends stays as it is: later corrections of it arrive."
