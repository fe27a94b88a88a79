"""The hub's address and the cache's place, looked at before the hub's client trips over them."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit

from dflash_deploy.errors import DownloadError, UsageError

DEFAULT = "https://huggingface.co"


def without_password(address: str) -> str:
    """As it may be shown: an address may carry a password."""
    parts = urlsplit(address)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def check_home() -> None:
    """HF_HOME, where it is set, is a folder or may become one. Raises DownloadError."""
    said = os.environ.get("HF_HOME")
    if not said:
        return
    path = Path(said).expanduser()
    there = next((each for each in (path, *path.parents) if each.exists()), path)
    if not there.is_dir():
        raise DownloadError(
            f"HF_HOME is {said}, and {there} is no folder",
            hint="unset HF_HOME, or export HF_HOME=/a/folder/of/yours",
        )


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
