"""What a repository holds at one commit, as the hub's API lists it: files, sizes, digests.

Answers from a hub are not trusted: a path that leaves the folder, or a digest that is none, is
refused before anything is written under its name.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import msgspec

from dflash_deploy.errors import DownloadError
from dflash_deploy.hub.sources import WeightsSource

if TYPE_CHECKING:
    from huggingface_hub import HfApi

COMMIT = re.compile(r"[0-9a-f]{40}")
SHA256 = re.compile(r"[0-9a-f]{64}")


class File(msgspec.Struct, frozen=True):
    path: str
    size: int
    digest: str
    """Its name in the cache: SHA-256 of its content, or for small files git's SHA-1 of the blob."""

    def hasher(self) -> Any:
        """A fresh hash that ends in `digest` once it has seen the whole content."""
        if SHA256.fullmatch(self.digest):
            return hashlib.sha256()
        # git's own name of a blob, no protection against malice
        return hashlib.sha1(b"blob %d\0" % self.size, usedforsecurity=False)


class Listing(msgspec.Struct, frozen=True):
    id: str
    commit: str
    files: tuple[File, ...]
    licence: str | None = None
    gated: bool = False


def listed(api: HfApi, weights: WeightsSource) -> Listing:
    """Ask the hub. Raises the client's errors, and DownloadError for an answer that is no hub's."""
    from huggingface_hub import RepoFile

    try:
        info = api.model_info(weights.id, revision=weights.revision, timeout=10)
        if info.gated:
            api.auth_check(weights.id)
        commit = _commit(info.sha)
        tree = api.list_repo_tree(weights.id, recursive=True, revision=commit)
        files = tuple(_file(weights, item) for item in tree if isinstance(item, RepoFile))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        from huggingface_hub.errors import HFValidationError

        if isinstance(error, HFValidationError):
            raise DownloadError(f"{weights.id} is not a repository's name: {error}") from error
        raise not_a_hub(api.endpoint, f"{type(error).__name__}: {error}") from error
    licence = getattr(info.card_data, "license", None)
    return Listing(
        weights.id, commit, files, licence if isinstance(licence, str) else None,
        bool(info.gated),
    )  # fmt: skip


def not_a_hub(endpoint: str, detail: str) -> DownloadError:
    return DownloadError(
        f"{endpoint} does not answer as a hub does",
        hint="is HF_ENDPOINT right, and is there no login page in between?",
        detail=detail,
    )


def _commit(said: str | None) -> str:
    if not COMMIT.fullmatch(said or ""):
        raise ValueError(f"{said} is no commit")
    return str(said)


def _file(weights: WeightsSource, item: Any) -> File:
    parts = PurePosixPath(item.path).parts
    digest = item.lfs.sha256 if item.lfs else item.blob_id
    size = item.lfs.size if item.lfs else item.size
    wanted = SHA256 if item.lfs else COMMIT
    if ".." in parts or item.path.startswith("/") or "\\" in item.path or "\0" in item.path:
        raise ValueError(f"{weights.id} lists {item.path!r}")
    if not wanted.fullmatch(digest) or size < 0:
        raise ValueError(f"{weights.id} lists {item.path} with the digest {digest!r}")
    return File(item.path, size, digest)
