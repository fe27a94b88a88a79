"""What a command is: a server of an engine, an install line, a benchmark, or a draft run alone."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Literal

from dflash_deploy.explain.config_file import ConfigFile
from dflash_deploy.explain.container import Container, container
from dflash_deploy.explain.shell import Words, too_long
from dflash_deploy.explain.unwrapped import also_run, name, unwrapped
from dflash_deploy.render.docker import Program
from dflash_deploy.schema import EngineName

Kind = Literal["serve", "install", "benchmark", "run-alone", "variables"]
MOST_WORDS = 2000
_OPTIONS = 10
"""Words of Python's own, or of what starts it, before the module."""
_PIN = re.compile(r"(?:--\w+=)?(?:vllm|sglang)(?:\[[\w,-]*\])?==([\w.]+)")
_MODULES: dict[str, EngineName] = {
    "sglang.launch_server": "sglang", "vllm.entrypoints.openai.api_server": "vllm",
}  # fmt: skip
_WITH_COMMAND: dict[str, EngineName] = {
    "vllm.entrypoints.cli.main": "vllm", "vllm": "vllm", "sglang": "sglang",
}  # fmt: skip
"""Modules that want `serve` behind them."""


@dataclass(frozen=True)
class Command:
    """A command understood: what it is, for which engine, with which options."""

    kind: Kind
    program: str
    """How the server is started: `vllm serve`, `python -m sglang.launch_server`."""
    argv: tuple[str, ...] = ()
    """The engine's own options, or those of the tool."""
    engine: EngineName | None = None
    env: dict[str, str] = field(default_factory=dict)
    optional_env: dict[str, str] = field(default_factory=dict)
    container: Container | None = None
    config: ConfigFile | None = None
    """The file that `--config` names."""
    mended: tuple[str, ...] = ()
    """Words that a copy had damaged, as they were meant."""
    launcher: str = ""
    """What starts the program: `torchrun`, `uv`."""
    doubled: bool = False
    """Whether the program is named although the image starts it itself."""

    pinned: str | None = None
    also: tuple[str, ...] = ()
    """What a shell in the container runs beside the server."""
    form: str | None = None
    """The kind of file that it is a part of, as `plan --format` calls it."""

    @property
    def version(self) -> str | None:
        """The release that the image's tag names, or the program that starts it."""
        return self.container.version if self.container else self.pinned


def read(words: Words) -> Command | None:
    """What the words are; None for a command that has nothing to do with DFlash.

    Raises UsageError for more words than any command has.
    """
    inner = unwrapped(words, _starts)
    rest = inner.words
    if not rest:
        if not (words.env or words.optional_env):
            return None
        return Command("variables", "", env=words.env, optional_env=words.optional_env)
    found = _tool(rest) or _server(rest)
    if found and len(found.argv) > MOST_WORDS:
        raise too_long()
    if found is None:
        return None
    env = {**inner.env, **found.env}
    return replace(found, env=env, mended=words.mended, pinned=_pinned(words.words),
                   form=words.form)  # fmt: skip


def _pinned(rest: tuple[str, ...]) -> str | None:
    """The release that `uvx --from vllm==0.30.0` or `uv run --with` names."""
    if rest[:1] not in (("uv",), ("uvx",)):
        return None
    return next((found[1] for word in rest[:40] if (found := _PIN.fullmatch(word))), None)


def _tool(rest: tuple[str, ...]) -> Command | None:
    program = name(rest)
    if program == "docker" and rest[1:3] == ("model", "run"):
        return Command("run-alone", "docker model run", rest[3:])
    if (
        program in ("docker", "podman", "nerdctl")
        and rest[1:2] != ("compose",)
        and ("run" in rest[1:3])
    ):
        words = rest[rest.index("run") + 1 :]
        return _container(words, "podman" if program == "podman" else "docker")
    if "install" in rest[:4] and program in ("pip", "pip3", "uv", "python", "python3"):
        after = rest.index("install") + 1
        return Command("install", "pip install", rest[after:], launcher=program)
    if rest[:2] == ("uv", "add"):
        return Command("install", "uv add", rest[2:], launcher=program)
    if "dflash.benchmark" in rest:
        after = rest.index("dflash.benchmark") + 1
        return Command("benchmark", "python -m dflash.benchmark", rest[after:], launcher=program)
    return None


def _starts(rest: tuple[str, ...]) -> bool:
    found = _server(rest) or _tool(rest)
    return found is not None and found.kind == "serve"


def _server(rest: tuple[str, ...]) -> Command | None:
    """`vllm serve`, `sglang serve`, or the module or file that either stands for."""
    program = name(rest)
    if program in ("vllm", "sglang") and rest[1:2] == ("serve",):
        engine: EngineName = "vllm" if program == "vllm" else "sglang"
        return Command("serve", f"{engine} serve", rest[2:], engine)
    if program.startswith("python") or program in ("-m", "torchrun", "accelerate"):
        return _module(rest)
    return None


def _module(rest: tuple[str, ...]) -> Command | None:
    """`python -m MODULE`, or the path of its file."""
    for at, word in enumerate(rest[:_OPTIONS]):
        module = word.removesuffix(".py").replace("/", ".").lstrip(".")
        known = (each for each in _MODULES if module == each or module.endswith(f".{each}"))
        if (found := next(known, None)) and (word.endswith(".py") or rest[at - 1] == "-m"):
            return Command("serve", f"python -m {found}", rest[at + 1 :], _MODULES[found])
        engine = _WITH_COMMAND.get(word) if rest[at - 1] == "-m" else None
        if engine and rest[at + 1 : at + 2] == ("serve",):
            return Command("serve", f"{engine} serve", rest[at + 2 :], engine)
    return None


def _container(words: tuple[str, ...], program: Program) -> Command | None:
    """The engine's options behind the image; variables given by `-e NAME=value` are kept."""
    found = container(words, program)
    if found is None:
        return None
    started = Words((found.entrypoint, *found.words) if found.entrypoint else found.words)
    inner = _server(unwrapped(started, _starts).words)
    engine = inner.engine if inner else _engine_of(found.image)
    if engine is None:
        return None
    also = tuple(f"{each[0]} ..." for each in also_run(started, _starts) if each)
    return Command(
        "serve", inner.program if inner else found.image, inner.argv if inner else found.words,
        engine, found.env, container=found, also=also,
        doubled=bool(inner) and not found.entrypoint and "vllm-openai" in found.image,
    )  # fmt: skip


def _engine_of(image: str) -> EngineName | None:
    if "vllm" in image:
        return "vllm"
    return "sglang" if "sglang" in image else None
