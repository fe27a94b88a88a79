"""The hub's address, looked at before its client is imported: that fails on an odd one."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from dflash_deploy.errors import UsageError

DEFAULT = "https://huggingface.co"


def check_endpoint() -> str:
    """HF_ENDPOINT, or the hub's own address where that is unset or empty. Raises UsageError."""
    said = os.environ.get("HF_ENDPOINT")
    if not said:
        os.environ.pop("HF_ENDPOINT", None)  # the client takes an empty one for an address
        return DEFAULT
    try:
        parts = urlsplit(said)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or True)
    except ValueError:
        sound = False
    if not sound:
        raise UsageError(
            "HF_ENDPOINT is no http or https address",
            hint="unset HF_ENDPOINT, or export HF_ENDPOINT=https://a-mirror.example",
        )
    return said
