"""Servers of a compose file, a Kubernetes manifest, or a part of one, as `docker run` says them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

from dflash_deploy.explain.shell import LARGEST, Words, from_text

_KEYS = ("command", "args", "entrypoint")
_LOOKS = re.compile(rf"^\s*(?:- )?(?:{'|'.join(_KEYS)}):(?:\s|$)", re.MULTILINE)
_OF_SGLANG = frozenset(
    {"--model-path", "--speculative-algorithm", "--speculative-draft-model-path"}
)
_MOST = 5000
"""Parts that are looked at: references within a file may repeat it without end."""


def pasted(text: str) -> list[Words]:
    """The commands of a text, or of the file that it is. Raises UsageError as `from_text` does."""
    return from_manifest(text) or from_text(text)


def from_manifest(text: str) -> list[Words]:
    """Nothing of a text that is no such file: a shell reads it then."""
    if len(text) > LARGEST or not _LOOKS.search(text):
        return []
    import yaml

    text = "\n".join(line for line in text.splitlines() if not line.startswith("```"))
    try:
        documents = list(yaml.load_all(text, Loader=yaml.CSafeLoader))
    except (yaml.YAMLError, ValueError, RecursionError):
        return []
    return [words for part in _parts(documents) if (words := _words(part)) is not None]


def _parts(documents: list[Any]) -> Iterator[dict[str, Any]]:
    """Everything in it that starts something."""
    waiting, seen = [*documents], 0
    while waiting and seen < _MOST:
        node, seen = waiting.pop(0), seen + 1
        if isinstance(node, dict):
            if any(key in node for key in _KEYS):
                yield node
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node


def _words(part: dict[str, Any]) -> Words | None:
    """Kubernetes calls `command` what Docker calls the entrypoint, and names its containers."""
    kubernetes = "args" in part or ("name" in part and "entrypoint" not in part)
    starts, then = ("command", "args") if kubernetes else ("entrypoint", "command")
    program, words = _split(part.get(starts)), _split(part.get(then))
    form = "k8s" if kubernetes else "compose"
    if image := part.get("image"):
        entry = ("--entrypoint", program[0]) if program else ()
        run = ("docker", "run", *_options(part), *entry, str(image), *program[1:], *words)
        return Words(run, form=form)
    said = (*program, *words)
    if said[:1] == ("serve",) or (said and said[0].startswith("-")):
        engine = "sglang" if _OF_SGLANG & {*said} else "vllm"
        said = (engine, "serve", *(said[1:] if said[0] == "serve" else said))
    return Words(said, form=form) if said else None


def _split(said: Any) -> tuple[str, ...]:
    if isinstance(said, list):
        return tuple(map(str, said))
    try:
        return tuple(shlex.split(str(said))) if said else ()
    except ValueError:
        return ()


def _options(part: dict[str, Any]) -> Iterator[str]:
    """What Docker is told on its command line."""
    for key, option in (
        ("ipc", "--ipc"),
        ("network_mode", "--network"),
        ("shm_size", "--shm-size"),
    ):
        if part.get(key):
            yield from (option, str(part[key]))
    if "gpu" in str([part.get(key) for key in ("deploy", "gpus", "resources", "runtime")]):
        yield from ("--gpus", "all")
    for said in _listed(part.get("ports")):
        if isinstance(said, str) and ":" in said:
            yield from ("-p", said)
    for said in _listed(part.get("volumes")):
        if isinstance(said, str) and ":" in said:
            yield from ("-v", said)
        elif isinstance(said, dict) and {"source", "target"} <= said.keys():
            kind = said.get("type", "volume")
            yield from ("--mount", f"type={kind},source={said['source']},target={said['target']}")
    for variable in _variables(part.get("environment") or part.get("env")):
        yield from ("-e", variable)


def _variables(said: Any) -> Iterator[str]:
    """`NAME=value`, or the name alone of what comes from elsewhere."""
    if isinstance(said, dict):
        yield from (name if value is None else f"{name}={value}" for name, value in said.items())
    for one in _listed(said):
        if isinstance(one, dict) and "name" in one:
            yield f"{one['name']}={one['value']}" if "value" in one else str(one["name"])
        elif isinstance(one, str):
            yield one


def _listed(said: Any) -> list[Any]:
    return said if isinstance(said, list) else []
