"""What a report says of the machine it was made on: no folder of it, for it is meant to be shown.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath

# a word by itself, behind `=` or `-o`, or a value in JSON; what has one name alone is no folder
_PATH = re.compile(r'(?:(?<![^="])|(?<=^-\w))/[^"/]+/[^"]+')


def placeless(words: Sequence[str], here: PurePath | None = None) -> tuple[str, ...]:
    """Absolute paths in them: as seen from `here` where they are below it, else by their name."""

    def shown(found: re.Match[str]) -> str:
        path = PurePath(found[0])
        below = here is not None and path.is_relative_to(here)
        return str(path.relative_to(here)) if here and below else path.name

    return tuple(_PATH.sub(shown, word) for word in words)
