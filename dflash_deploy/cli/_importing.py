"""`registry import` at work: a recipe fetched or read, an overlay written and proved."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dflash_deploy.cli import _entry_file
from dflash_deploy.entry_yaml import as_yaml
from dflash_deploy.errors import DownloadError, RegistryError, UsageError, unread
from dflash_deploy.explain.secret import is_secret_option, is_secret_variable, shown
from dflash_deploy.named_file import start_of
from dflash_deploy.registry import Entry, Registry, user_folder
from dflash_deploy.validate import problems
from dflash_deploy.vllm_recipe import A_RECIPE, Imported, LeftOut, imported
from dflash_deploy.yaml_source import read_yaml, text_of

LARGEST = 1 << 20
"""Bytes; the longest recipe published has a thirtieth of it."""
BY_HAND = "download it, then name the file"
_BLOB = re.compile(r"https://github\.com/([^/]+/[^/]+)/blob/(.+)")
_OPTION = re.compile(r"(--[\w-]+[ =])\S+")


@dataclass(frozen=True)
class Overlay:
    """What a recipe became, before anything is written."""

    made: Imported
    text: str
    file: Path
    left_out: tuple[str, ...]
    """One line each."""
    replaced: Entry | None
    """The entry whose place it takes, where it does not extend it."""


def read_recipe(place: str, folder: Path | None) -> Overlay:
    if not place.strip():
        raise UsageError("no recipe is named", hint="dflash registry import FILE, or its address")
    root = folder or user_folder()
    registry = _entry_file.below(folder)
    name, data = _fetched(place) if "://" in place else (place, _read(place))
    document: Any = read_yaml(text_of(data, name, A_RECIPE), name, A_RECIPE)
    made = imported(document, registry, name)
    left = tuple(said(each) for each in made.left_out)
    top = [f"imported from {name}", *made.notes, *(f"not taken over: {line}" for line in left)]
    replaced = None if made.model.extends else registry.entries[made.target]
    return Overlay(made, as_yaml(made.model, top), root / made.file, left, replaced)


def write(overlay: Overlay, folder: Path | None) -> None:
    def prove(registry: Registry) -> None:
        for problem in problems([registry.find(overlay.made.target)], registry.engines):
            raise RegistryError(f"{problem.where}: {problem.message}")

    _entry_file.write(overlay.file, overlay.text, folder, prove, overlay.replaced)


def said(left: LeftOut) -> str:
    """One line of a recipe, without what opens somebody's account."""
    name = left.name.rpartition(".")[2]
    if left.value and (is_secret_option(name) or is_secret_variable(name)):
        return shown(str(replace(left, value="...")))
    return shown(str(replace(left, value=_OPTION.sub(_masked, left.value))))


def _masked(option: re.Match[str]) -> str:
    return f"{option[1]}..." if is_secret_option(option[1].strip("= ")) else option[0]


def _read(place: str) -> bytes:
    try:
        return _limited([start_of(Path(place), LARGEST + 1)], place)
    except OSError as error:
        raise RegistryError(
            f"{place}: cannot be read: {unread(error)}",
            hint="a recipe's file, or its https address",
        ) from error


def _fetched(url: str) -> tuple[str, bytes]:
    """How the address may be called from now on, and what is there."""
    import httpx

    try:
        parts = urlsplit(url)
        known = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="")
        name = known.geturl()
        if parts.scheme != "https":
            raise UsageError(
                f"{name}: only https addresses are fetched", hint="https://... or a file"
            )
        with httpx.Client(follow_redirects=True, max_redirects=3, timeout=15) as client:
            raw = _BLOB.sub(r"https://raw.githubusercontent.com/\1/\2", parts.geturl())
            with client.stream("GET", raw) as response:
                response.raise_for_status()
                if response.url.scheme != "https":
                    raise DownloadError(f"{name} leads to an address without TLS", hint=BY_HAND)
                return name, _limited(response.iter_bytes(), name)
    except httpx.HTTPStatusError as error:
        raise DownloadError(
            f"{name} answered {error.response.status_code}", hint=BY_HAND
        ) from error
    except httpx.HTTPError as error:
        raise DownloadError(f"{name} cannot be fetched", hint=BY_HAND, detail=str(error)) from error
    except (httpx.InvalidURL, ValueError) as error:
        raise UsageError(f"no address: {error}", hint="https://... or a file") from error


def _limited(parts: Iterable[bytes], name: str) -> bytes:
    data = b""
    for part in parts:
        data += part
        if len(data) > LARGEST:
            raise RegistryError(f"{name}: over {LARGEST >> 20} MiB is no recipe", hint=A_RECIPE)
    return data
