"""Text as pages, terminals and editors leave it, made lines of a shell again. Pure."""

from __future__ import annotations

import html
import json
import re
import shlex
from collections.abc import Iterator

TOOLS = (
    r"(?:vllm serve|sglang serve|python[\d.]* -m (?:sglang|vllm|dflash|pip)[\w.]*"
    r"|torchrun|uv run|uvx"
    r"|(?:docker|podman) (?:model |container )?run|(?:uv )?pip3? install)"
)
_BEFORE = r"(?:[A-Za-z_]\w*=\S*\s+|\w+\s+)*?(?:\S*/)?"
_IN_COMMENT = re.compile(rf"(?:^|#|: )\s*((?:uv |python3? -m )?{TOOLS})(?= )")
"""Where a command starts on a line that lost its breaks: `# Start the server: vllm serve ...`."""
_GLUED = re.compile(
    r"(?<=[a-z0-9])(?=vllm serve [\w\"']|export [A-Z_]+=|python3? -m (?:sglang|vllm|dflash)\.)"
)
"""Two commands that a copy ran together: `--x 32768export A=1`."""
_PROMPT = re.compile(
    r"(?:\([\w.-]+\)\s*)?(?:[\w.-]+@[\w.-]+(?::[^\s$#%]*|\s\S+\s)[$%#]\s+|[$%]\s+)"
    r"|\[[\w.-]+@[\w.-]+ [^\]]*\][$#]\s+|[\u276f\u03bb\u00bb]\s+"
    r"|\u279c\s+\S+\s+(?:git:\(\S+\)\s+(?:\u2717\s+)?)?"
    r"|>{1,3}\s+|!(?=\w)|PS \S*>\s+"
)
"""What a terminal, a notebook or a quotation puts before a command."""
_NUMBERED = re.compile(rf"(?:[-*•]|\d{{1,3}}[.):]?)\s+(?={_BEFORE}{TOOLS}\s)")
"""An item of a list, or the number of a line."""
_CODE = re.compile(rf"(?<!`)`({_BEFORE}{TOOLS}\s[^`]+)`(?!`)")
"""A command within a sentence."""
_LIST = re.compile(r"\[\s*\"")
"""Where words of a Dockerfile or a program begin, in brackets, which JSON reads too."""
_UNIT = re.compile(r"ExecStart=[-@:+!]*")
_ENVIRONMENT = re.compile(r"^Environment=")
_TYPOGRAPHIC = str.maketrans("\u2018\u2019\u201c\u201d\u00a0", "''\"\" ")
"""As word processors and blogs mend quotes."""
_UNSEEN = re.compile(r"[\x01-\x08\x0b-\x1f\x7f\x80-\x9f\u200b-\u200d\u2060\ufeff]")
_ENTITY = re.compile(r"&(?:quot|amp|lt|gt|nbsp|#39|#x27|#34);")
_ASKED = re.compile(r"\$\([^()\n]*\)")
"""What a shell would ask another command for: one word, whatever is in it."""
_HIDDEN = str.maketrans(" ;&|", "\x1c\x1d\x1e\x1f")
_SHOWN = str.maketrans("\x1c\x1d\x1e\x1f", " ;&|")
_COMMENTED_EXPORT = re.compile(r"#\s*export\s+([A-Za-z_]\w*)=(\S*)")
OPTIONAL = "#optional"
"""How a variable behind a comment sign is marked until it is read."""


def lines_of(text: str) -> str:
    """Code fences, prompts, comments, continuations and table bars are shed; a command a line."""
    if _ENTITY.search(text):
        text = html.unescape(text)
    plain = _UNSEEN.sub("", text.translate(_TYPOGRAPHIC).replace("\r\n", "\n").replace("\r", "\n"))
    lines = (
        part
        for line in _ASKED.sub(lambda found: found[0].translate(_HIDDEN), plain).split("\n")
        for whole in _GLUED.sub("\n", line).split("\n")
        for part in _unfolded(_bare(whole))
    )
    marked = (_COMMENTED_EXPORT.sub(rf"{OPTIONAL} \1=\2", line.strip()) for line in lines)
    kept = [
        "" if line.startswith("```") else line
        for line in marked if not line.startswith(("# ", "##"))
    ]  # fmt: skip
    # other shells continue a line with a sign of their own
    joined = re.sub(r"(?:\\|(?<=\s)[`^])[ \t]*\n", " ", "\n".join(kept))
    # a copy that lost its line breaks keeps the backslashes
    return re.sub(r"[ \t]\\[ \t]+|\\[ \t]+(?=--)", " ", joined)


def shown(word: str) -> str:
    """A word with the blanks that were hidden from the shell's rules."""
    return word.translate(_SHOWN)


def _bare(line: str) -> str:
    """A row of a table holds one line of the command, and a prompt is no part of it."""
    stripped = line.strip()
    if stripped.startswith("|"):
        stripped = stripped.strip("|").strip().removesuffix("|").strip()
    if found := _CODE.search(stripped):
        stripped = found[1]
    if stripped.startswith("`") and not stripped.startswith("```"):
        stripped = stripped.strip("`. ")
    if found := _LIST.search(stripped):
        stripped = _joined(stripped[found.start() : stripped.rfind("]") + 1]) or stripped
    for before in (_NUMBERED, _PROMPT, _UNIT):
        if found := before.match(stripped):
            stripped = stripped[found.end() :]
    return _ENVIRONMENT.sub("export ", stripped)


def _joined(listed: str) -> str | None:
    """A list of words as a shell takes them; None for any other list."""
    try:
        words = json.loads(listed)
    except ValueError:
        return None
    plain = len(words) > 1 and all(isinstance(word, str) for word in words)
    return shlex.join(words) if plain and "\n" not in "".join(words) else None


def _unfolded(line: str) -> Iterator[str]:
    """A comment with commands in it, as the hub's pages copy: each command on a line of its own."""
    starts = [found.start(1) for found in _IN_COMMENT.finditer(line)]
    if not line.startswith("#") or not starts:
        yield line
        return
    for start, end in zip(starts, [*starts[1:], None], strict=True):
        yield line[start:end].partition(" # ")[0]
