"""`registry import` at work: a recipe fetched or read, an overlay written and proved."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from dflash_deploy.entry_yaml import as_yaml
from dflash_deploy.errors import DownloadError, RegistryError, UsageError, unread
from dflash_deploy.registry import load, user_folder
from dflash_deploy.validate import problems
from dflash_deploy.vllm_recipe import Imported, imported
from dflash_deploy.yaml_source import read_yaml

LARGEST = 1 << 20
"""Bytes; the longest recipe published has a thirtieth of it."""
_BLOB = re.compile(r"https://github\.com/([^/]+/[^/]+)/blob/(.+)")


def read_recipe(place: str, folder: Path | None) -> tuple[Imported, str, Path]:
    """The overlay, its text, and where it belongs; nothing is written."""
    registry = load(folder if folder and folder.is_dir() else None)
    document: Any = read_yaml(_text(place), place)
    made = imported(document, registry, place)
    left = [f"not taken over: {line}" for line in made.left_out]
    text = as_yaml(made.model, [f"imported from {place}", *left])
    return made, text, (folder or user_folder()) / made.file


def write(made: Imported, text: str, path: Path, folder: Path | None) -> None:
    """Write the overlay, or nothing: a file that is there stays, one that is wrong goes again."""
    if path.exists():
        raise UsageError(
            f"{path} is there already, and stays as it is", hint="--print shows the new one"
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RegistryError(f"{path}: cannot be written: {error}") from error
    try:
        registry = load(folder)
        wrong = problems([registry.find(made.target)], registry.engines)
    except RegistryError:
        path.unlink()
        raise
    if wrong:
        path.unlink()
        raise RegistryError(str(wrong[0]), hint="--print shows what would have been written")


def _text(place: str) -> str:
    if "://" in place:
        return _fetched(place)
    path = Path(place)
    try:
        if path.stat().st_size > LARGEST:
            raise RegistryError(f"{place}: over {LARGEST >> 20} MiB is no recipe")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RegistryError(
            f"{place}: cannot be read: {unread(error)}",
            hint="a recipe's file, or its https address",
        ) from error


def _fetched(url: str) -> str:
    import httpx

    if not url.startswith("https://"):
        raise UsageError(f"{url}: only https addresses are fetched", hint="https://... or a file")
    raw = _BLOB.sub(r"https://raw.githubusercontent.com/\1/\2", url)
    try:
        with httpx.Client(follow_redirects=True, max_redirects=3, timeout=15) as client:
            return _limited(client, raw)
    except httpx.HTTPStatusError as error:
        raise DownloadError(f"{url} answered {error.response.status_code}") from error
    except (httpx.HTTPError, UnicodeDecodeError) as error:
        raise DownloadError(
            f"{url} cannot be fetched", hint="download it, then name the file", detail=str(error)
        ) from error


def _limited(client: Any, url: str) -> str:
    data = b""
    with client.stream("GET", url) as response:
        response.raise_for_status()
        for part in response.iter_bytes():
            data += part
            if len(data) > LARGEST:
                raise DownloadError(f"{url}: over {LARGEST >> 20} MiB is no recipe")
    return data.decode("utf-8")
