"""Commands that are suggested repeat the registry of the command that suggests them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

TAKES = frozenset({
    "bench", "chat", "doctor", "explain", "list", "plan", "pull", "report", "serve", "show",
    "train", "tune", "verify",
    "registry add", "registry check", "registry import", "registry evidence add",
})  # fmt: skip
"""The commands that have `--registry`."""
_COMMAND = re.compile(r"\bdflash((?: [a-z]+)+)\b")


def registry_said(argv: Sequence[str]) -> str | None:
    """The folder of `--registry FOLDER`, or of `registry check FOLDER`; the last one counts."""
    own = argv[: argv.index("--")] if "--" in argv else argv
    said = None
    for number, word in enumerate(own):
        if word.startswith("--registry="):
            said = word.partition("=")[2]
        elif word == "--registry":
            said = next(iter(own[number + 1 :]), None)
    if said is None and [*own[:2]] == ["registry", "check"]:
        said = next((word for word in own[2:] if not word.startswith("-")), None)
    return said or None


def with_registry(text: str, folder: str | None) -> str:
    """A text whose `dflash ...` commands name that folder too, unless it names it already."""
    word = shlex.quote(folder or "")
    if folder is None or re.search(rf"(?<!\S){re.escape(word)}(?!\S)", text):
        return text
    return _COMMAND.sub(lambda command: _with(command, word), text)


def _with(command: re.Match[str], folder: str) -> str:
    words = command[1].split()
    for count in range(len(words), 0, -1):
        if " ".join(words[:count]) in TAKES:
            return " ".join(["dflash", *words[:count], "--registry", folder, *words[count:]])
    return command[0]
