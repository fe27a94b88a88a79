"""What a launcher, a terminal's window, a container or a shell is told to start. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import PurePosixPath

from dflash_deploy.errors import UsageError
from dflash_deploy.explain.shell import ASSIGNMENT, Words, from_text

_SHELLS = frozenset({"bash", "sh", "zsh"})
_WRAPPERS = frozenset(
    {"uv", "uvx", "srun", "numactl", "taskset", "nice", "ionice", "timeout", "stdbuf", "conda",
     "mamba", "micromamba", "poetry", "pipenv", "pixi", "hatch", "nsys", "kubectl", "oc",
     "torchrun", "accelerate", "sudo", "doas", "env", "setsid", "tmux", "screen", "ssh", "eval",
     "apptainer", "singularity", "docker", "podman", "nerdctl", *_SHELLS}
)  # fmt: skip
"""Programs that start another, whose options are not the engine's."""
_DEEP = 40
"""Words of a launcher before what it starts."""


def unwrapped(given: Words, starts: Callable[[tuple[str, ...]], bool]) -> Words:
    """The words from the first that `starts` a server, or the same words if none does."""
    return next((found for found in _inside(given) if starts(found.words)), given)


def also_run(given: Words, starts: Callable[[tuple[str, ...]], bool]) -> list[tuple[str, ...]]:
    """What a shell runs beside the server."""
    told = _quoted(given.words) if name(given.words) in _SHELLS else ()
    return [found.words for found in told if not starts(found.words)]


def _inside(given: Words) -> Iterator[Words]:
    yield given
    words = given.words
    if not words or not (words[0].startswith("-") or name(words) in _WRAPPERS):
        return
    for at in range(1, min(len(words), _DEEP)):
        said = (word.partition("=") for word in words[:at] if ASSIGNMENT.fullmatch(word))
        yield replace(given, words=words[at:], env=given.env | {n: value for n, _, value in said})
    for found in _quoted(words):
        yield replace(found, env=given.env | found.env)


def _quoted(words: tuple[str, ...]) -> Iterator[Words]:
    """The commands of `bash -c "..."`, `tmux new "..."`: one word with blanks in it."""
    told = (word for word in words[1:_DEEP] if " " in word and word[0] not in "{[")
    for word in islice(told, 3):
        try:
            yield from from_text(word)
        except UsageError:
            continue


def name(words: tuple[str, ...]) -> str:
    return PurePosixPath(words[0]).name if words else ""
