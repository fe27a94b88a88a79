"""What the server says on standard error: phase lines for people and launchers, and its log."""

from __future__ import annotations

import logging
import sys


def say(line: str) -> None:
    """A phase line, for a person or a launcher that watches standard error."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def set_up_logging(level: str) -> None:
    # Libraries have their say at debug; otherwise only when something is wrong.
    others = logging.DEBUG if level == "debug" else logging.WARNING
    logging.basicConfig(
        level=others, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s"
    )
    logging.getLogger("dflash_deploy").setLevel(level.upper())
