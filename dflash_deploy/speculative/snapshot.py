"""A draft's files, from a folder or from the hub, and words for what keeps them from coming."""

from __future__ import annotations

from pathlib import Path

from dflash_deploy.errors import DownloadError

FILES = ("*.json", "*.safetensors")


def snapshot(path_or_hub_id: str | Path, revision: str | None) -> Path:
    """The folder itself, or the hub's files in its cache. Raises DownloadError."""
    folder = Path(path_or_hub_id)
    if folder.is_dir():
        return folder
    import httpx
    from huggingface_hub import snapshot_download

    name = str(path_or_hub_id)
    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=list(FILES)))
    except (OSError, ValueError, httpx.TransportError) as error:
        raise refusal(
            name, revision, error, f"{name} is neither a folder nor a repository's name"
        ) from error


def refusal(name: str, revision: str | None, error: BaseException, otherwise: str) -> DownloadError:
    """Say what the hub's error means and what to do; `otherwise` where it is none of the hub's.

    transformers wraps the hub's errors in one of its own, so causes count as well.
    """
    import httpx
    from huggingface_hub import constants, errors

    page = f"https://huggingface.co/{name}"
    known = (
        errors.HfHubHTTPError,
        errors.LocalEntryNotFoundError,
        errors.OfflineModeIsEnabled,
        httpx.TransportError,
    )
    detail, cause = str(error), error
    while cause.__cause__ is not None and not isinstance(cause, known):
        cause = cause.__cause__
    match cause:
        case errors.GatedRepoError():
            message = f"{name} is gated: its licence must be accepted first"
            hint = f"accept it at {page}, then `hf auth login` or `export HF_TOKEN=...`"
        case errors.RevisionNotFoundError():
            message, hint = f"{name} has no revision {revision}", f"{page}/commits/main"
        case errors.RepositoryNotFoundError():
            message = f"{name} does not exist on the hub, or is private"
            hint = "`hf auth login`, if you have access to it"
        case _ if isinstance(cause, known) and constants.HF_HUB_OFFLINE:
            message = f"{name} is not complete in the local cache, and HF_HUB_OFFLINE is set"
            hint = "unset HF_HUB_OFFLINE, then the same command again"
        case _ if isinstance(cause, known):
            message = f"the hub did not give {name}, and it is not in the local cache"
            hint = "check the network or proxy, or set HF_ENDPOINT to a mirror"
        case _:
            return DownloadError(otherwise, detail=detail)
    return DownloadError(message, hint=hint, detail=detail)
