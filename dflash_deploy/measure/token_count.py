"""Who can count a text's tokens: the target's tokenizer on this machine, or the server itself."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from dflash_deploy import hub
from dflash_deploy.hub import cache
from dflash_deploy.measure.connection import CONNECT_TIMEOUT, connect
from dflash_deploy.measure.fitting import Count
from dflash_deploy.plan import Endpoint
from dflash_deploy.registry import Entry

FILE = "tokenizer.json"


def by_file(entry: Entry) -> Count | None:
    """With the tokenizer that lies beside any of the target's weights; None: none does."""
    try:
        from tokenizers import Tokenizer
    except ImportError:  # it comes with the embedded engine
        return None
    for folder in _folders(entry):
        if (folder / FILE).is_file():
            # the library raises bare Exceptions for what it cannot read
            with suppress(Exception):
                found = Tokenizer.from_file(str(folder / FILE))
                return lambda text: len(found.encode(text, add_special_tokens=False).ids)
    return None


def _folders(entry: Entry) -> list[Path]:
    """Where snapshots of the target are, or would be."""
    kept = cache.Cached(cache.root(), entry.id)
    found = [hub.local_path(hub.source(entry.id, each)) for each in entry.target.weights]
    commits = [kept.commit(each.revision) for each in entry.target.weights]
    return [
        *(folder for folder in found if folder), *(kept.snapshot(each) for each in commits if each)
    ]  # fmt: skip


def by_server(endpoint: Endpoint) -> Count | None:
    """As vLLM and SGLang count for who asks; None: this server does not."""
    if _counted(endpoint, "a") is None:
        return None
    return lambda text: _counted(endpoint, text) or 1


def _counted(endpoint: Endpoint, text: str) -> int | None:
    import httpx

    body = {"model": endpoint.model, "prompt": text, "add_special_tokens": False}
    with (
        suppress(httpx.HTTPError, ValueError, LookupError, TypeError),
        connect(endpoint, read_timeout=CONNECT_TIMEOUT) as client,
    ):
        return int(client.post("/tokenize", json=body).raise_for_status().json()["count"])
    return None
