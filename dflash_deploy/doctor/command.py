"""Which package the `dflash` on PATH belongs to, and which Python runs this one."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path

import msgspec

from dflash_deploy.doctor.finding import Finding, plain

SCRIPT, OURS, OUR_MODULE = "dflash", "dflash-deploy", "dflash_deploy"
# removing the other package removes the script, whosever it is by then
TAKE_BACK = f"pip uninstall {SCRIPT} && pip install --force-reinstall --no-deps {OURS}"
LARGEST = 1 << 16
"""Bytes of a script that are read; a launcher of pip's has a few hundred."""


class Claim(msgspec.Struct, frozen=True):
    """A distribution that says it installed the script."""

    name: str
    version: str
    module: str
    """Which module its script starts."""


class Command(msgspec.Struct, frozen=True):
    path: str | None
    """The script that the shell finds first."""
    owner: Claim | None
    here: bool
    """Whether it is in the environment that runs now."""
    others: tuple[str, ...] = ()
    """Further `dflash` on PATH, hidden by the first."""
    python: str = ""
    prefix: str = ""
    shared: bool = False
    """Whether two distributions of one environment claim the script."""


def read() -> Command:
    python, prefix = platform.python_version(), sys.prefix
    found = list(_on_path())
    if not found:
        return Command(None, None, here=False, python=python, prefix=prefix)
    script = found[0]
    text = _content(script)
    claims = [claim for place in _libraries(script) for claim in _claims(place)]
    return Command(
        str(script), owner(text, claims), _prefix(script) == Path(prefix).resolve(),
        tuple(map(str, found[1:])), python, prefix, len({claim.name for claim in claims}) > 1,
    )  # fmt: skip


def _on_path() -> Iterator[Path]:
    """Every script of that name, each file once."""
    seen = set()
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        path = shutil.which(SCRIPT, path=folder) if folder else None
        if path and (real := Path(path).resolve()) not in seen:
            seen.add(real)
            yield Path(path).absolute()


def _content(script: Path) -> str:
    try:
        with script.open("rb") as file:
            return file.read(LARGEST).decode("utf-8", errors="replace")
    except OSError:
        return ""


def _prefix(script: Path) -> Path:
    """The environment; installers like pipx link a script out of theirs."""
    return script.resolve().parent.parent


def _libraries(script: Path) -> list[str]:
    """Where the environment of the script has its packages; Debian calls them otherwise."""
    prefix = _prefix(script)
    names = ("site-packages", "dist-packages")
    return [str(path) for name in names for path in prefix.glob(f"lib/python3*/{name}")]


def _claims(place: str) -> Iterator[Claim]:
    for distribution in distributions(path=[place]):
        yield from _claim(distribution)


def _claim(distribution: Distribution) -> Iterator[Claim]:
    for entry in distribution.entry_points:
        if entry.group == "console_scripts" and entry.name == SCRIPT:
            module = entry.value.partition(":")[0].strip()
            yield Claim(distribution.metadata["Name"], distribution.version, module)


def owner(script: str, claims: list[Claim]) -> Claim | None:
    """Whose the script is: two packages may claim it, and it starts the module of one. Pure."""
    for claim in claims:
        if re.search(rf"\b(from|import) {re.escape(claim.module)}\b(?!\.)", script):
            return claim
    return claims[0] if len(claims) == 1 else None


def findings(command: Command) -> Iterator[Finding]:
    yield _owned(command)
    for other in command.others:
        yield Finding("command", "note", plain(f"hidden behind it on PATH: {other}"))
    yield Finding("command", "ok", plain(f"Python {command.python} in {command.prefix}"))


def _owned(command: Command) -> Finding:
    if command.path is None:
        text = "no `dflash` on PATH: `python -m dflash_deploy` is the same"
        return Finding("command", "note", text, _first(command))
    at = f"`dflash` is {command.path}"
    if command.owner is None:
        return Finding("command", "note", plain(f"{at}: no package of Python's"), _ours(command))
    whose = f"of {command.owner.name} {command.owner.version}"
    if command.owner.name.replace("_", "-").lower() != OURS:
        text = f"{at} {whose}, another program"
        return Finding("command", "note", plain(text), _ours(command))
    if not command.here:
        text = f"{at} {whose}, and not the one that runs now"
        return Finding("command", "note", plain(text), _first(command))
    if command.shared:
        text = f"{at} {whose}; the package `dflash` wants the name too, and may take it back"
        return Finding("command", "note", plain(text), TAKE_BACK)
    return Finding("command", "ok", plain(f"{at} {whose}"))


def _first(command: Command) -> str:
    return f'export PATH="{command.prefix}/bin:$PATH"'


def _ours(command: Command) -> str:
    return TAKE_BACK if command.here else f"use `{OURS}`, the same program by its other name"
