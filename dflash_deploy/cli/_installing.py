"""What `dflash engine` does and shows, over `dflash_deploy.envs`."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from dflash_deploy import hardware
from dflash_deploy.cli import _output
from dflash_deploy.cli._output import Column
from dflash_deploy.envs import install, needs, places, uv
from dflash_deploy.envs.install import Installing
from dflash_deploy.envs.places import Environment
from dflash_deploy.errors import EngineError
from dflash_deploy.hub import disk
from dflash_deploy.launch.environments import find_executable, from_metadata
from dflash_deploy.registry import load

COLUMNS = (
    Column("ENGINE"),
    Column("VERSION"),
    Column("SIZE", right=True),
    Column("STATE"),
    Column("PATH", wrap=True),
)
root = places.root


class Listed(msgspec.Struct, frozen=True):
    """A row: one of our environments, or an engine of somebody else's on PATH."""

    engine: str
    version: str | None
    path: Path
    state: str
    size: int | None = None
    on_path: bool = False


def installed(text: str, *, check_driver: bool) -> tuple[Listed, bool]:
    """The release made ready, and whether it had to be made."""
    registry = load()
    this = needs.wanted(text, registry.engines)
    if check_driver and (line := needs.check_driver(this, hardware.probe(registry.gpus))):
        _output.note(line)
    with drawn(Installing(uv.find(), _output.note)) as how:
        made, new = install.install(this, how)
    return _listed(made), new


@contextmanager
def drawn(how: Installing) -> Iterator[Installing]:
    """With a bar on a terminal. uv tells of a package when it is whole, so that is its step."""
    if not _output.redraws():
        yield how
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeElapsedColumn

    columns = (BarColumn(), DownloadColumn(binary_units=True), TimeElapsedColumn())
    console = Console(stderr=True, highlight=False, markup=False)
    with Progress(*columns, console=console, transient=True) as bars:
        task = bars.add_task("", total=None, visible=False)

        def watch(done: int, total: int) -> None:
            bars.update(task, completed=done, total=total or None, visible=done < total)

        yield replace(how, say=bars.console.print, watch=watch)


def every() -> list[Listed]:
    """Our own, and what PATH holds besides."""
    ours = [_listed(each) for each in places.every()]
    return ours + [found for found in _foreign() if not _inside(found.path)]


def _foreign() -> Iterator[Listed]:
    for name, engine in load().engines.items():
        executable = find_executable(engine.executable, env_dir=None) if engine.install else None
        if executable:
            version = from_metadata(executable, engine.distribution)
            yield Listed(name, version, executable, "not ours", on_path=True)


def _inside(path: Path) -> bool:
    return path.is_relative_to(places.root())


def _listed(found: Environment) -> Listed:
    on_path = shutil.which(found.executable.name)
    return Listed(
        found.engine, found.version, found.path, found.state,
        found.marker.size if found.marker else None,
        on_path is not None and Path(on_path) == found.executable,
    )  # fmt: skip


def row(each: Listed) -> tuple[str, ...]:
    state = f"{each.state}, on PATH" if each.on_path else each.state
    size = disk.size(each.size) if each.size is not None else "-"
    return (each.engine, each.version or "unknown", size, state, _short(each.path))


def _short(path: Path) -> str:
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def document(each: Listed) -> dict[str, Any]:
    return {
        "engine": each.engine, "version": each.version, "path": str(each.path),
        "size_bytes": each.size, "state": each.state, "on_path": each.on_path,
    }  # fmt: skip


def removed(text: str) -> Listed:
    """Take one away; a name alone is enough where it has one environment."""
    name, version = needs.split(text)
    of_name = [each for each in places.every() if each.engine == name]
    found = [each for each in of_name if version in (None, each.version)]
    if len(found) > 1:
        raise EngineError(
            f"{len(found)} releases of {name} are installed",
            hint=f"dflash engine remove {name}=={found[0].version}",
            detail="\n".join(f"{each.version}  {each.path}" for each in found),
        )
    if not found:
        what = f"{name} {version}" if version else name
        raise EngineError(f"{what} is not installed by dflash", hint="dflash engine list")
    install.remove(found[0], _output.note)
    return _listed(found[0])
