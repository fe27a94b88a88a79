"""What the server says on standard error: phase lines for people and launchers, and its log."""

from __future__ import annotations

import logging
import sys


def say(line: str) -> None:
    """A phase line, for a person or a launcher that watches standard error."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def set_up_logging(level: str) -> None:
    logging.basicConfig(
        level=level.upper(), stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s"
    )
    if level != "debug":  # libraries' running commentary
        for name in ("uvicorn.error", "httpx", "transformers"):
            logging.getLogger(name).setLevel(logging.WARNING)
