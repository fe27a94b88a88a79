"""A snapshot or a few small files through the hub client's own downloader, into its cache."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dflash_deploy.errors import DownloadError
from dflash_deploy.hub.endpoint import check_endpoint, check_home
from dflash_deploy.hub.sources import Phase, WeightsSource
from dflash_deploy.hub.trouble import ANSWER_TIMEOUT, disk_errors, offline, refused, unreachable

ALLOW = ("*.safetensors", "*.json", "*.jinja", "*.txt", "*.model", "*.tiktoken", "*.py", "LICENSE*")
# second copies of the same weights, in formats neither engine reads
IGNORE = ("original/*", "metal/*", "onnx/*", "consolidated*.safetensors", "*.onnx")


def from_hub(
    weights: WeightsSource, on_phase: Phase, *, bars: bool, allow: Sequence[str] = ALLOW
) -> Path:
    """A snapshot in huggingface_hub's cache, resumed where it was left; HF_* are honoured."""
    check_endpoint()
    check_home()
    import httpx
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
    )
    from huggingface_hub.utils.tqdm import disable_progress_bars

    on_phase(f"downloading {weights.id}")
    if not bars:
        disable_progress_bars()
    for attempt in (1, 2):
        silence: Exception | None = None
        try:
            if not offline():
                silence = silent(weights)
            with disk_errors(None):
                found = snapshot_download(
                    weights.id,
                    revision=weights.revision,
                    allow_patterns=list(allow),
                    ignore_patterns=list(IGNORE),
                    etag_timeout=ANSWER_TIMEOUT,
                    local_files_only=silence is not None,
                )
        except HfHubHTTPError as error:
            raise refused(weights, error) from error
        except HFValidationError as error:
            raise DownloadError(f"{weights.id} is not a repository's name: {error}") from error
        except (LocalEntryNotFoundError, OfflineModeIsEnabled, httpx.TransportError) as error:
            if attempt == 2 or offline():
                raise unreachable(weights, silence or error) from error
            on_phase(f"{weights.id}: no answer, trying once more")
        else:
            return Path(found)
    raise AssertionError("the loop returns or raises")


def silent(weights: WeightsSource) -> Exception | None:
    """Why the hub does not answer, if it does not. `snapshot_download` asks it without a limit of
    time, and a network that takes a question and never answers would keep it for ever.
    """
    import httpx
    from huggingface_hub import HfApi

    try:
        HfApi().repo_info(weights.id, revision=weights.revision, timeout=ANSWER_TIMEOUT)
    except httpx.TransportError as error:
        return error
    return None


def small_files(repository: str, names: Sequence[str], on_phase: Phase) -> tuple[Path, str]:
    """Those of these files that a repository has, the first at least: their folder and commit."""
    weights = WeightsSource(repository, names[0])
    folder = from_hub(weights, on_phase, bars=False, allow=names)
    if not (folder / names[0]).is_file():
        if offline():
            raise unreachable(weights, FileNotFoundError(names[0]))
        raise DownloadError(
            f"{repository} has no {names[0]}",
            hint=f"is it the right repository? https://huggingface.co/{repository}/tree/main",
        )
    return folder, folder.name
