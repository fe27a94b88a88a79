"""`--config FILE` of an engine: options of a command that stand in a YAML file of this machine."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from dflash_deploy.errors import RegistryError, unread
from dflash_deploy.schema import EngineName
from dflash_deploy.yaml_source import read_yaml

LARGEST = 1 << 18
"""Bytes; an engine's file has a hundredth of it."""
_SUFFIXES = (".yaml", ".yml")
_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_.-]+)?")
_LINE = re.compile(r"it:(\d+)")


@dataclass(frozen=True)
class ConfigFile:
    """A file that a command names: what it holds, or why it was not read."""

    path: str
    document: Mapping[str, Any] | None = None
    trouble: str = ""

    @property
    def name(self) -> str:
        return Path(self.path).name

    def words(self, engine: EngineName) -> tuple[str, ...]:
        """Its options as the engine hands them to its parser."""
        pairs = (self.document or {}).items()
        return tuple(word for key, value in pairs for word in _option(key, value, engine))


def named_in(argv: Sequence[str]) -> str | None:
    """The file that the options name."""
    joined = (word.partition("=")[2] for word in argv if word.startswith("--config="))
    behind = (word for option, word in pairwise(argv) if option == "--config")
    return next((word for word in (*joined, *behind) if word), None)


def not_here(path: str) -> ConfigFile:
    """A file of another machine, or of a container."""
    return ConfigFile(path, trouble="is not on this machine")


def read_file(path: str) -> ConfigFile:
    """Nothing of what it holds gets into `trouble`: it may hold keys."""
    if not path.endswith(_SUFFIXES):
        return ConfigFile(path, trouble="is no .yaml, which is all that the engine takes")
    try:
        return _parsed(path, _regular(Path(path).expanduser()))
    except OSError as error:
        return ConfigFile(path, trouble=f"cannot be read here: {unread(error)}")
    except UnicodeDecodeError:
        return ConfigFile(path, trouble="is no text")
    except ValueError:
        return ConfigFile(path, trouble="has no name that a file can have")


def _parsed(path: str, data: bytes) -> ConfigFile:
    if len(data) > LARGEST:
        return ConfigFile(path, trouble="is larger than any file of options")
    try:
        found = read_yaml(data.decode("utf-8"), "it")
    except RegistryError as error:
        line = _LINE.match(error.message)
        return ConfigFile(path, trouble=f"is no YAML{f', line {line[1]}' if line else ''}")
    if not isinstance(found, dict) or not all(map(_KEY.fullmatch, map(str, found))):
        return ConfigFile(path, trouble="is no list of options, a key and its value a line")
    return ConfigFile(path, found)


def _regular(path: Path) -> bytes:
    """A pipe or a device would never end."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "it is no file")
        return stream.read(LARGEST + 1)


def _option(key: str, value: Any, engine: EngineName) -> Iterator[str]:
    """A switch that is off is left out; vLLM then says its opposite."""
    if value is None or value == []:
        return
    if value is False:
        if engine == "vllm":
            yield f"--no-{key}"
        return
    yield f"--{key}"
    yield from () if value is True else _words(value)


def _words(value: Any) -> Iterable[str]:
    if isinstance(value, list):
        return [str(item) for item in value]
    return [json.dumps(value) if isinstance(value, dict) else str(value)]
