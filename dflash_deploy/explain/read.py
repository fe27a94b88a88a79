"""What a command is: a server of an engine, an install line, a benchmark, or a draft run alone."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Literal

from dflash_deploy.explain.shell import Words
from dflash_deploy.schema import EngineName

Kind = Literal["serve", "install", "benchmark", "run-alone", "variables"]
_TAG = re.compile(r"v?(\d+\.\d+\.\d+(?:\.post\d+)?)(?:-.*)?")
_DOCKER_SWITCHES = frozenset(
    {"-d", "--detach", "--rm", "-i", "-t", "-it", "-ti", "--interactive", "--tty", "--init",
     "--privileged", "--read-only", "--no-healthcheck", "-P", "--publish-all", "--oom-kill-disable"}
)  # fmt: skip
"""Options of `docker run` that take no word."""
_PREFIXES = frozenset({"sudo", "nohup", "time", "env", "exec"})


@dataclass(frozen=True)
class Command:
    """A command understood: what it is, for which engine, with which options."""

    kind: Kind
    written: tuple[str, ...]
    engine: EngineName | None = None
    argv: tuple[str, ...] = ()
    """The engine's own options, or those of the tool."""
    env: dict[str, str] = field(default_factory=dict)
    optional_env: dict[str, str] = field(default_factory=dict)
    image: str | None = None
    version: str | None = None
    """The release that the image's tag names."""
    doubled: bool = False
    """Whether the program is named although the image starts it itself."""


def read(words: Words) -> Command | None:
    """What the words are; None for a command that has nothing to do with DFlash."""
    rest = words.words
    while rest and rest[0] in _PREFIXES:
        rest = rest[1:]
    if not rest:
        variables = words.env or words.optional_env
        return Command("variables", (), env=words.env, optional_env=words.optional_env) if (
            variables) else None  # fmt: skip
    found = _tool(rest) or _server(rest)
    if found is None:
        return None
    return Command(
        found.kind, words.words, found.engine, found.argv, {**words.env, **found.env},
        {}, found.image, found.version, found.doubled,
    )  # fmt: skip


def _tool(rest: tuple[str, ...]) -> Command | None:
    program = PurePosixPath(rest[0]).name
    if program == "docker" and rest[1:3] == ("model", "run"):
        return Command("run-alone", rest, argv=rest[3:])
    if program == "docker" and "run" in rest[1:3]:
        return _container(rest[rest.index("run") + 1 :])
    if "install" in rest[:4] and program in ("pip", "pip3", "uv", "python", "python3"):
        return Command("install", rest, argv=rest[rest.index("install") + 1 :])
    if "dflash.benchmark" in rest:
        return Command("benchmark", rest, argv=rest[rest.index("dflash.benchmark") + 1 :])
    return None


def _server(rest: tuple[str, ...]) -> Command | None:
    """`vllm serve`, `sglang serve`, or the module that either stands for."""
    program = PurePosixPath(rest[0]).name
    if program in ("vllm", "sglang") and rest[1:2] == ("serve",):
        return Command("serve", rest, "vllm" if program == "vllm" else "sglang", rest[2:])
    if program.startswith("python") and rest[1:2] == ("-m",) and len(rest) > 2:
        if rest[2] == "sglang.launch_server":
            return Command("serve", rest, "sglang", rest[3:])
        if rest[2] == "vllm.entrypoints.openai.api_server":
            return Command("serve", rest, "vllm", rest[3:])
    return None


def _container(words: tuple[str, ...]) -> Command | None:
    """The engine's options behind the image; variables given by `-e NAME=value` are kept."""
    env: dict[str, str] = {}
    at = 0
    while at < len(words) and words[at].startswith("-"):
        option, equals, value = words[at].partition("=")
        taken = bool(equals) or option in _DOCKER_SWITCHES
        said = value if equals else words[at + 1] if not taken and at + 1 < len(words) else ""
        if option in ("-e", "--env") and "=" in said:
            name, _, setting = said.partition("=")
            env[name] = setting
        at += 1 if taken else 2
    if at >= len(words):
        return None
    image, rest = words[at], words[at + 1 :]
    inner = _server(rest)
    engine: EngineName | None = inner.engine if inner else _engine_of(image)
    if engine is None:
        return None
    own_entrypoint = engine == "vllm"
    return Command(
        "serve", words, engine, inner.argv if inner else rest, env, image=image,
        version=_version(image), doubled=bool(inner) and own_entrypoint,
    )  # fmt: skip


def _engine_of(image: str) -> EngineName | None:
    if "vllm" in image:
        return "vllm"
    return "sglang" if "sglang" in image else None


def _version(image: str) -> str | None:
    tag = image.rpartition("/")[2].partition(":")[2]
    found = _TAG.fullmatch(tag)
    return found[1] if found else None
