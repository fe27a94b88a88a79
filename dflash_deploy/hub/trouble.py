"""What the hub, the network and the disk refuse, in words, with what to do about it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dflash_deploy.errors import DFlashError, DownloadError
from dflash_deploy.hub.endpoint import DEFAULT, without_password
from dflash_deploy.hub.sources import WeightsSource

if TYPE_CHECKING:
    from huggingface_hub.errors import HfHubHTTPError

ANSWER_TIMEOUT = 10.0
VARIABLES = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
"""Seconds the hub gets to answer."""
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
# the hub client's own errors are OSErrors as well, but without a number
UNWRITABLE = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENOENT, errno.EEXIST}


def refused(weights: WeightsSource, error: HfHubHTTPError) -> DownloadError:
    """Gated, missing, of no such revision, or with a token that is not taken: told apart."""
    from huggingface_hub.errors import (
        GatedRepoError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    status = error.response.status_code
    page = f"https://huggingface.co/{weights.id}"
    if isinstance(error, GatedRepoError):
        return gated(weights.id, said=error.response.headers.get("X-Error-Message"))
    if isinstance(error, RevisionNotFoundError):
        return DownloadError(
            f"{weights.id} has no revision {weights.revision or 'main'}",
            hint=f"{page}/commits/main",
        )
    if isinstance(error, RepositoryNotFoundError):
        return DownloadError(
            f"{weights.id} does not exist on the hub, or is private",
            hint=f"{another_token()}, if you have access to it",
        )
    if status in (401, 403):
        return DownloadError(
            f"the hub refused {token_source() or 'a request without a token'} ({status})"
            f" for {weights.id}",
            hint=another_token(),
            detail=error.response.headers.get("X-Error-Message"),
        )
    return DownloadError(
        f"the hub failed on {weights.id} ({status})", hint="the same command again in a while",
        detail=str(error),
    )  # fmt: skip


def gated(repository: str, *, said: str | None = None) -> DownloadError:
    """Which licence to accept where, and for which token."""
    page = f"https://huggingface.co/{repository}"
    token = token_source()
    if token is None:
        return DownloadError(
            f"{repository} is gated: its licence must be accepted first, and no token is set",
            hint=f"accept it at {page}, then `hf auth login` or `export HF_TOKEN=...`",
            detail=said,
        )
    return DownloadError(
        f"{repository} is gated, and {token} has no access to it",
        hint=f"accept its licence at {page} with that token's account"
        " (a fine-grained token must also be allowed to read gated repositories)",
        detail=said,
    )


def another_token() -> str:
    """A variable goes before what `hf auth login` writes."""
    said = [name for name in VARIABLES if os.environ.get(name, "").strip()]
    return f"unset {' '.join(said)} && hf auth login" if said else "hf auth login"


def token_source() -> str | None:
    """Where the token comes from that the client sends; never the token."""
    from huggingface_hub import constants, get_token

    if constants.HF_HUB_DISABLE_IMPLICIT_TOKEN or not get_token():
        return None
    for name in VARIABLES:
        if os.environ.get(name, "").strip():
            return f"the token in {name}"
    return f"the token in {constants.HF_TOKEN_PATH}"


def unreachable(weights: WeightsSource, error: Exception) -> DownloadError:
    if offline():
        return DownloadError(
            f"{weights.id} is not complete in the local cache, and HF_HUB_OFFLINE is set",
            hint="unset HF_HUB_OFFLINE, then the same command again",
        )
    endpoint = without_password(os.environ.get("HF_ENDPOINT") or DEFAULT)
    return DownloadError(
        f"the hub at {endpoint} cannot be reached, and {weights.id} is not in the local cache",
        hint="check the network or proxy, or set HF_ENDPOINT to a mirror",
        detail=str(error.__cause__ or error) or type(error).__name__,
    )


@contextmanager
def transfer_errors(names: str, endpoint: str, folder: Path | None = None) -> Iterator[None]:
    """What a transfer may meet that no more patience would mend, in words."""
    import httpx
    from huggingface_hub.errors import HfHubHTTPError

    from dflash_deploy.hub.patience import Passing, said

    again = "the same command again goes on from there"
    try:
        with disk_errors(folder):
            yield
    except HfHubHTTPError as error:
        raise refused(WeightsSource(names, ""), error) from error
    except Passing as error:
        wait = f" and asks to wait for {error.after:.0f} s" if error.after else ", each time"
        raise DownloadError(f"{names}: {error}{wait}", hint=again) from error
    except httpx.HTTPError as error:
        raise DownloadError(
            f"{names}: {said(error)}, each time; what came is kept",
            hint=f"check the network, or HF_ENDPOINT ({without_password(endpoint)}): {again}",
            detail=str(error) or type(error).__name__,
        ) from error


def offline() -> bool:
    from huggingface_hub import constants

    return bool(constants.HF_HUB_OFFLINE)


@contextmanager
def disk_errors(folder: Path | None) -> Iterator[None]:
    try:
        yield
    except DFlashError:
        raise
    except OSError as error:
        if error.errno in FULL:
            raise disk_full(folder) from error
        if error.errno not in UNWRITABLE:
            raise
        raise DownloadError(
            f"the cache cannot be written: {error}",
            hint="set XDG_CACHE_HOME (and HF_HOME) to a folder that can",
        ) from error


def disk_full(folder: Path | None) -> DownloadError:
    at = f" at {folder}" if folder else ""
    return DownloadError(
        f"the disk is full{at}",
        hint="free some space, or set HF_HOME (hub) or XDG_CACHE_HOME to a larger disk",
    )
