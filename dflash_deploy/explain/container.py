"""`docker run OPTIONS IMAGE ...`: what of it is the engine's."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TAG = re.compile(r"v?(\d+\.\d+\.\d+(?:\.post\d+)?)(?:-.*)?")
_SWITCHES = frozenset(
    {"--detach", "--rm", "--interactive", "--tty", "--init", "--privileged", "--read-only",
     "--no-healthcheck", "--publish-all", "--oom-kill-disable", "--sig-proxy", "--quiet"}
)  # fmt: skip
"""Options that take no word."""
_SHORT_SWITCHES = re.compile(r"-[ditPq]+")
_SHORT_WITH_VALUE = re.compile(r"(-[pevwhualm])=?(.+)", re.DOTALL)
_PORTS = re.compile(r"(?:[\d.]+:|\[[\da-fA-F:]+\]:)?(\d{1,5}):\d{1,5}(?:/tcp)?")


@dataclass(frozen=True)
class Container:
    """A container to be started."""

    image: str
    words: tuple[str, ...]
    """What follows the image."""
    env: dict[str, str]
    port: int | None = None
    """Where the server can be reached from outside."""
    entrypoint: str | None = None

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


def container(words: tuple[str, ...]) -> Container | None:
    """The words after `run`; None where no image follows."""
    env: dict[str, str] = {}
    port: int | None = None
    entrypoint: str | None = None
    at = 0
    while at < len(words) and words[at].startswith("-"):
        option, said, taken = _option(words, at)
        if option in ("-e", "--env") and "=" in said:
            name, _, value = said.partition("=")
            env[name] = value
        elif option in ("-p", "--publish") and (found := _PORTS.fullmatch(said)):
            port = port or int(found[1])
        elif option == "--entrypoint":
            entrypoint = said
        at += taken
    if at >= len(words):
        return None
    return Container(words[at], words[at + 1 :], env, port, entrypoint)


def _option(words: tuple[str, ...], at: int) -> tuple[str, str, int]:
    """An option, its word, and how many words both take."""
    word = words[at]
    if word in _SWITCHES or _SHORT_SWITCHES.fullmatch(word):
        return word, "", 1
    if not word.startswith("--") and (short := _SHORT_WITH_VALUE.fullmatch(word)):
        return short[1], short[2], 1
    option, equals, value = word.partition("=")
    if equals:
        return option, value, 1
    return option, words[at + 1] if at + 1 < len(words) else "", 2
