"""`docker run OPTIONS IMAGE ...`: what of it is Docker's, and what the engine's. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath

from dflash_deploy.explain.docker_flags import LONG, SWITCHES
from dflash_deploy.render.docker import Program

_TAG = re.compile(r"v?(\d+\.\d+\.\d+(?:\.post\d+)?)(?:-.*)?")
_SHORT_SWITCHES = re.compile(r"-[ditPq]+")
_SHORT_WITH_VALUE = re.compile(r"(-[pevwhualmc])=?(.+)", re.DOTALL)
_VOLUME = re.compile(r"(.+?):(/[^:]*)(?::[^/:]*)?", re.DOTALL)
"""Outside and inside: a folder that a shell fills in may hold colons of its own, `${A:-b}:/x`."""
_PORTS = re.compile(r"(?:([\d.]+|\[[\da-fA-F:]+\]):)?(\d{1,5}):(\d{1,5})(?:/tcp)?")


@dataclass(frozen=True)
class Option:
    """One option of Docker's, by its long name."""

    name: str
    value: str
    written: str
    """Its name, as it was written."""

    @property
    def part(self) -> str:
        return f"{self.written} {self.value}".strip()


@dataclass(frozen=True)
class Port:
    """A port of the container, and where it is reached from outside."""

    option: Option
    address: str | None
    """None: every address of the machine."""
    outside: int
    inside: int


@dataclass(frozen=True)
class Mount:
    """A folder of the machine inside the container."""

    option: Option
    outside: str
    inside: str

    def holds(self, path: str) -> bool:
        return PurePosixPath(path).is_relative_to(self.inside)


@dataclass(frozen=True)
class Container:
    """A container to be started."""

    image: str
    words: tuple[str, ...]
    """What follows the image."""
    options: tuple[Option, ...]
    program: Program = "docker"

    def last(self, name: str) -> Option | None:
        return next((item for item in reversed(self.options) if item.name == name), None)

    @cached_property
    def env(self) -> dict[str, str]:
        """Variables with a value; the others are handed over by name."""
        said = (item.value.partition("=") for item in self.options if item.name == "--env")
        return {name: value for name, equals, value in said if equals}

    @property
    def by_name(self) -> frozenset[str]:
        """Variables that Docker takes from its own environment."""
        said = (item.value for item in self.options if item.name == "--env")
        return frozenset(value for value in said if "=" not in value)

    @property
    def entrypoint(self) -> str | None:
        option = self.last("--entrypoint")
        return option.value if option else None

    @cached_property
    def ports(self) -> tuple[Port, ...]:
        return tuple(_ports(self.options))

    @property
    def shares_network(self) -> bool:
        option = self.last("--network")
        return option is not None and option.value == "host"

    @cached_property
    def mounts(self) -> tuple[Mount, ...]:
        return tuple(_mounts(self.options))

    @property
    def version(self) -> str | None:
        """The release that the image's tag names."""
        found = _TAG.fullmatch(self.tag)
        return found[1] if found else None

    @property
    def name(self) -> str:
        return self.image.removesuffix(f":{self.tag}")

    @property
    def tag(self) -> str:
        return self.image.partition("@")[0].rpartition("/")[2].partition(":")[2]


def container(words: tuple[str, ...], program: Program = "docker") -> Container | None:
    """The words after `run`; None where no image follows."""
    options: list[Option] = []
    at = 0
    while at < len(words) and words[at].startswith("-"):
        option, taken = _option(words, at)
        options.append(option)
        at += taken
    if at >= len(words):
        return None
    return Container(words[at], words[at + 1 :], tuple(options), program)


def _option(words: tuple[str, ...], at: int) -> tuple[Option, int]:
    """An option with its word, and how many words both take."""
    word = words[at]
    if word in SWITCHES or _SHORT_SWITCHES.fullmatch(word):
        return Option(word if word in SWITCHES else LONG[word[:2]], "", word), 1
    if not word.startswith("--") and (short := _SHORT_WITH_VALUE.fullmatch(word)):
        return Option(LONG.get(short[1], short[1]), short[2], short[1]), 1
    option, equals, value = word.partition("=")
    name = LONG.get(option, option)
    if equals:
        return Option(name, value, option), 1
    return Option(name, words[at + 1] if at + 1 < len(words) else "", option), 2


def _ports(options: tuple[Option, ...]) -> Iterator[Port]:
    for item in options:
        if item.name == "--publish" and (found := _PORTS.fullmatch(item.value)):
            yield Port(item, found[1], int(found[2]), int(found[3]))


def _mounts(options: tuple[Option, ...]) -> Iterator[Mount]:
    for item in options:
        if item.name == "--volume":
            found = _VOLUME.fullmatch(item.value)
            outside, inside = found.groups() if found else ("", "")
        elif item.name == "--mount":
            said = dict(pair.partition("=")[::2] for pair in item.value.split(","))
            outside = said.get("source") or said.get("src", "")
            inside = said.get("target") or said.get("dst") or said.get("destination", "")
        else:
            continue
        if inside.startswith("/"):
            yield Mount(item, outside, inside)
