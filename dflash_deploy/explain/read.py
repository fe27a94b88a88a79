"""What a command is: a server of an engine, an install line, a benchmark, or a draft run alone."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Literal

from dflash_deploy.errors import UsageError
from dflash_deploy.explain.config_file import ConfigFile
from dflash_deploy.explain.container import Container, container
from dflash_deploy.explain.shell import Words, from_text, too_long
from dflash_deploy.schema import EngineName

Kind = Literal["serve", "install", "benchmark", "run-alone", "variables"]
MOST_WORDS = 2000
_SHELLS = frozenset({"bash", "sh", "zsh"})
_WRAPPERS = frozenset(
    {"uv", "uvx", "srun", "numactl", "taskset", "nice", "ionice", "timeout", "stdbuf", "conda",
     "mamba", "micromamba", "poetry", "pipenv", "pixi", "hatch", "nsys", "kubectl",
     "oc"}
)  # fmt: skip
"""Programs that start another, whose options are not the engine's."""
_PIN = re.compile(r"(?:--\w+=)?(?:vllm|sglang)(?:\[[\w,-]*\])?==([\w.]+)")
_MODULES: dict[str, EngineName] = {
    "sglang.launch_server": "sglang", "vllm.entrypoints.openai.api_server": "vllm",
}  # fmt: skip


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

    @property
    def version(self) -> str | None:
        """The release that the image's tag names, or the program that starts it."""
        return self.container.version if self.container else self.pinned


def read(words: Words) -> Command | None:
    """What the words are; None for a command that has nothing to do with DFlash.

    Raises UsageError for more words than any command has.
    """
    rest = _unwrapped(words.words)
    if not rest:
        if not (words.env or words.optional_env):
            return None
        return Command("variables", "", env=words.env, optional_env=words.optional_env)
    found = _tool(rest) or _server(rest)
    if found and len(found.argv) > MOST_WORDS:
        raise too_long()
    if found is None:
        return None
    env = {**words.env, **found.env}
    return replace(found, env=env, mended=words.mended, pinned=_pinned(words.words))


def _unwrapped(rest: tuple[str, ...]) -> tuple[str, ...]:
    """What `uv run`, `srun`, `kubectl run ... --` or `bash -c` start."""
    if _name(rest) in _WRAPPERS:
        return next((rest[i:] for i in range(1, min(len(rest), 40)) if _server(rest[i:])), rest)
    inner = _inside_shell(rest)
    return next((words.words for words in inner if _server(words.words)), rest)


def _inside_shell(rest: tuple[str, ...]) -> list[Words]:
    """The commands of `bash -c "..."`; none of anything else."""
    if len(rest) < 3 or _name(rest) not in _SHELLS or rest[1] not in ("-c", "-lc"):
        return []
    try:
        return from_text(rest[2])
    except UsageError:
        return []


def _pinned(rest: tuple[str, ...]) -> str | None:
    """The release that `uvx --from vllm==0.30.0` or `uv run --with` names."""
    if rest[:1] not in (("uv",), ("uvx",)):
        return None
    return next((found[1] for word in rest[:40] if (found := _PIN.fullmatch(word))), None)


def _name(rest: tuple[str, ...]) -> str:
    return PurePosixPath(rest[0]).name if rest else ""


def _tool(rest: tuple[str, ...]) -> Command | None:
    program = _name(rest)
    if program == "docker" and rest[1:3] == ("model", "run"):
        return Command("run-alone", "docker model run", rest[3:])
    if program in ("docker", "podman") and "run" in rest[1:3]:
        return _container(rest[rest.index("run") + 1 :])
    if "install" in rest[:4] and program in ("pip", "pip3", "uv", "python", "python3"):
        after = rest.index("install") + 1
        return Command("install", "pip install", rest[after:], launcher=program)
    if rest[:2] == ("uv", "add"):
        return Command("install", "uv add", rest[2:], launcher=program)
    if "dflash.benchmark" in rest:
        after = rest.index("dflash.benchmark") + 1
        return Command("benchmark", "python -m dflash.benchmark", rest[after:], launcher=program)
    return None


def _server(rest: tuple[str, ...]) -> Command | None:
    """`vllm serve`, `sglang serve`, or the module that either stands for."""
    program = _name(rest)
    if program in ("vllm", "sglang") and rest[1:2] == ("serve",):
        engine: EngineName = "vllm" if program == "vllm" else "sglang"
        return Command("serve", f"{engine} serve", rest[2:], engine)
    if program.startswith("python") and "-m" in rest[1:4]:
        module, after = rest.index("-m") + 1, rest.index("-m") + 2
        if found := _MODULES.get("".join(rest[module:after])):
            return Command("serve", f"python -m {rest[module]}", rest[after:], found)
    return None


def _container(words: tuple[str, ...]) -> Command | None:
    """The engine's options behind the image; variables given by `-e NAME=value` are kept."""
    found = container(words)
    if found is None:
        return None
    started = (found.entrypoint, *found.words) if found.entrypoint else found.words
    inner = _server(_unwrapped(started)) if started else None
    engine = inner.engine if inner else _engine_of(found.image)
    if engine is None:
        return None
    others = (each.words for each in _inside_shell(started) if not _server(each.words))
    also = tuple(f"{each[0]} ..." for each in others if each)
    return Command(
        "serve", inner.program if inner else found.image, inner.argv if inner else found.words,
        engine, found.env, container=found, also=also,
        doubled=bool(inner) and not found.entrypoint and "vllm-openai" in found.image,
    )  # fmt: skip


def _engine_of(image: str) -> EngineName | None:
    if "vllm" in image:
        return "vllm"
    return "sglang" if "sglang" in image else None
