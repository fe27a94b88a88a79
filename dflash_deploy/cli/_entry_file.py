"""An entry written to the user's registry: complete or not at all, and never over another."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dflash_deploy.errors import DFlashError, RegistryError, UsageError, unread
from dflash_deploy.named_file import start_of
from dflash_deploy.registry import Entry, Registry, load, present, user_folder

BY_HAND = "the same command with --print shows it: put it into that file by hand"


def below(folder: Path | None) -> Registry:
    """The layers that a new file of this folder joins; the folder need not be there yet."""
    return load(folder if folder and present(folder) else None)


def check_place(folder: Path | None) -> None:
    """Before hours are spent on what goes there. Raises RegistryError."""
    root = folder or user_folder()
    there = next(each for each in (root, *root.absolute().parents) if _there(each))
    if not there.is_dir():
        raise _unwritten(root, FileExistsError(0, "", str(there)))
    if not os.access(there, os.W_OK | os.X_OK):
        raise _unwritten(root, OSError(0, "nothing can be made there", str(there)))


def write(
    file: Path, text: str, folder: Path | None, prove: Callable[[Registry], None],
    replaced: Entry | None = None,
) -> None:  # fmt: skip
    """The file, and the registry read again; the file goes if it cannot stand there.

    `replaced`: the entry whose place it takes, of which no file of the folder may speak.
    """
    _check_free(file, folder or user_folder(), replaced)
    made = _folders(file)
    try:
        stream = file.open("x", encoding="utf-8")
    except FileExistsError as error:
        raise UsageError(f"{file} exists, and is not overwritten", hint=BY_HAND) from error
    except OSError as error:
        raise _unwritten(file, error) from error
    try:
        with stream:
            stream.write(text)
        prove(load(folder))
    except BaseException as error:
        file.unlink()
        for each in made:
            with suppress(OSError):
                each.rmdir()
        if isinstance(error, OSError):
            raise _unwritten(file, error) from error
        if isinstance(error, DFlashError):
            raise RegistryError(
                f"the entry cannot stand beside yours: {error.message}", hint=BY_HAND
            ) from error
        raise


@contextmanager
def in_place_of(file: Path) -> Iterator[str | None]:
    """An earlier file's text; it is back if nothing takes its place. Raises RegistryError."""
    if not _there(file):
        yield None
        return
    aside = file.with_name(f"{file.name}.before")
    try:
        earlier = file.read_text(encoding="utf-8")
        file.replace(aside)
    except (OSError, UnicodeDecodeError) as error:
        raise _unwritten(file, OSError(0, unread(error))) from error
    try:
        yield earlier
    except BaseException:
        aside.replace(file)
        raise
    aside.unlink()


def _check_free(file: Path, root: Path, replaced: Entry | None) -> None:
    """Nothing of the user's is overwritten, nor left behind by a copy that takes its place."""
    if _there(file):
        raise UsageError(f"{file} exists, and is not overwritten", hint=BY_HAND)
    if replaced is None:
        return
    for each in replaced.files:
        if Path(each).resolve().is_relative_to(root.resolve()):
            raise UsageError(f"{each} says something of {replaced.id} already", hint=BY_HAND)


def holds(file: Path, text: str) -> bool:
    """Whether the same was written before."""
    try:
        return start_of(file, len(text.encode()) + 1) == text.encode()
    except OSError:
        return False


def next_step(model: str, engine: str) -> str:
    return f"next: {shlex.join(('dflash', 'plan', model, '--engine', engine))}"


def _folders(file: Path) -> list[Path]:
    """Make the file's folder. Returns what had to be made for it, the innermost first."""
    missing = [each for each in file.parents if not _there(each)]
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritten(file, error) from error
    return missing


def _there(path: Path) -> bool:
    """Links that lead nowhere included."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise _unwritten(path, error) from error
    return True


def _unwritten(file: Path, error: OSError) -> RegistryError:
    at = f"{error.filename}: " if error.filename and str(error.filename) != str(file) else ""
    said = "it is no folder" if isinstance(error, FileExistsError) else unread(error)
    return RegistryError(
        f"{file} cannot be written: {at}{said}", hint="--registry FOLDER, or --print"
    )
