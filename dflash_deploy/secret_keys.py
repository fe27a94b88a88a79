"""Keys of a JSON value that open something: what they hold is neither passed on nor shown. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from dflash_deploy.flag_tables import Given

_OPENS = re.compile(
    r"^(?:key|token)$|(?:^|_)(?:secret|password|passwd|passphrase|credentials?)$"
    r"|(?:^|_)(?:api|hf|auth|access|bearer|secret|private|session)_?(?:key|token)$"
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_KEY = re.compile(r"""(["']?)([\w-]+)\1\s*:\s*""")
_VALUE = re.compile(
    r"""(?:"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|\{[^}]*\}?|\[[^\]]*\]?|[^\s,}\]]+)"""
)


def opens(name: str) -> bool:
    """`key`, `apiKey`, `access_token`: not `mask_token` or `template_key`."""
    plain = _CAMEL.sub("_", name).replace("-", "_").lower()
    return bool(_OPENS.search(plain))


def secret_key(option: Given) -> str | None:
    """The first such key that an option says, after a dot or in its value."""
    dotted = option.as_written.partition("=")[0].rstrip("+").split(".")[1:]
    inside = (name for word in option.words for name in _names(word))
    return next((name for name in (*dotted, *inside) if opens(name)), None)


def without_secrets(text: str) -> str:
    """A text in which objects, also broken ones, do not say what such keys hold."""
    parts, at = [], 0
    for key in _KEY.finditer(text):
        held = _VALUE.match(text, key.end()) if key.start() >= at and opens(key[2]) else None
        if held:
            parts += [text[at : key.end()], "..."]
            at = held.end()
    return "".join((*parts, text[at:]))


def _names(word: str) -> Iterator[str]:
    """The keys of an object; of what looks like one and is none, too: it is refused later."""
    if not word.lstrip().startswith(("{", "[")):
        return
    try:
        yield from _walk(json.loads(word))
    except (ValueError, RecursionError):
        yield from (key[2] for key in _KEY.finditer(word))


def _walk(value: Any) -> Iterator[str]:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if isinstance(value, dict):
        yield from value
    for part in parts:
        yield from _walk(part)
