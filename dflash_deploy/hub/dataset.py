"""One file of a dataset as rows: fetched once at a pinned commit, kept as JSONL, then read here."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from dflash_deploy.errors import DownloadError
from dflash_deploy.hub.endpoint import check_endpoint, check_home
from dflash_deploy.hub.listing import not_a_hub
from dflash_deploy.hub.sources import Phase, WeightsSource
from dflash_deploy.hub.trouble import ANSWER_TIMEOUT, disk_errors, offline, refused, unreachable

Row = dict[str, Any]


def dataset_rows(
    repository: str, revision: str, file: str, on_phase: Phase = lambda _: None
) -> list[Row]:
    """The rows, in the file's order. Raises DownloadError."""
    kept = _place(repository, revision, file)
    if kept.is_file():
        return _kept(kept)
    on_phase(f"downloading {repository}")
    rows = _parsed(_fetched(repository, revision, file), repository)
    with disk_errors(kept.parent):
        _keep(kept, rows)
    return rows


def _place(repository: str, revision: str, file: str) -> Path:
    import platformdirs

    root = Path(platformdirs.user_cache_dir("dflash", appauthor=False)) / "datasets"
    split = Path(file).stem
    return root / f"{repository.replace('/', '--')}-{revision[:12]}-{split}.jsonl"


def _kept(path: Path) -> list[Row]:
    try:
        return [msgspec.json.decode(line, type=Row) for line in path.read_bytes().splitlines()]
    except (msgspec.DecodeError, OSError) as error:
        raise DownloadError(
            f"{path} is damaged: {error}", hint=f"rm {shlex.quote(str(path))}"
        ) from error


def _keep(path: Path, rows: Sequence[Row]) -> None:
    """Complete or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
    beside.replace(path)


def _fetched(repository: str, revision: str, file: str) -> Path:
    """From the hub client's cache, else from the hub. Raises DownloadError."""
    check_endpoint()
    check_home()
    wanted = WeightsSource(f"datasets/{repository}", file, revision)
    found = _cached(repository, revision, file)
    if found:
        return found
    if offline():
        raise _elsewhere(unreachable(wanted, FileNotFoundError(file)))
    try:
        _greet(repository, revision, wanted)
        return _downloaded(repository, revision, file, wanted)
    except DownloadError as error:
        raise _elsewhere(error) from error


def _cached(repository: str, revision: str, file: str) -> Path | None:
    """A commit does not change: what is here needs no asking."""
    from huggingface_hub import try_to_load_from_cache

    with disk_errors(None):
        found = try_to_load_from_cache(repository, file, repo_type="dataset", revision=revision)
    return Path(found) if isinstance(found, str) else None


def _greet(repository: str, revision: str, wanted: WeightsSource) -> None:
    """One question first: the client's download would ask five times, and say each time so."""
    import httpx
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    api = HfApi()
    try:
        api.dataset_info(repository, revision=revision, timeout=ANSWER_TIMEOUT)
    except httpx.TransportError as error:
        raise unreachable(wanted, error) from error
    except HfHubHTTPError as error:
        raise refused(wanted, error) from error
    except (httpx.HTTPError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise not_a_hub(api.endpoint, f"{type(error).__name__}: {error}") from error


def _downloaded(repository: str, revision: str, file: str, wanted: WeightsSource) -> Path:
    import httpx
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, LocalEntryNotFoundError
    from huggingface_hub.utils import logging
    from huggingface_hub.utils.tqdm import disable_progress_bars

    disable_progress_bars()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]  # the error below says it
    try:
        with disk_errors(None):
            path = hf_hub_download(
                repository, file, repo_type="dataset", revision=revision,
                etag_timeout=ANSWER_TIMEOUT,
            )  # fmt: skip
    except (LocalEntryNotFoundError, httpx.TransportError) as error:
        if isinstance(error.__cause__, HfHubHTTPError):
            raise refused(wanted, error.__cause__) from error
        raise unreachable(wanted, error) from error
    except EntryNotFoundError as error:
        raise DownloadError(
            f"{repository} has no {file} at {revision[:12]}",
            hint=f"https://huggingface.co/datasets/{repository}/tree/{revision}",
        ) from error
    except HfHubHTTPError as error:
        raise refused(wanted, error) from error
    return Path(path)


def _elsewhere(error: DownloadError) -> DownloadError:
    """Without a network there is still something to measure with."""
    hint = error.hint or ""
    hint += f"{' Else' if hint.endswith('?') else '; or'} --dataset mixed, which needs no network"
    return DownloadError(error.message, hint=hint, detail=error.detail)


def _parsed(path: Path, repository: str) -> list[Row]:
    try:
        if path.suffix == ".parquet":
            return _parquet(path)
        return [
            msgspec.json.decode(line, type=Row) for line in path.read_bytes().splitlines() if line
        ]
    except (ValueError, OSError) as error:  # pyarrow's and msgspec's errors are ValueErrors
        raise DownloadError(
            f"{repository}: what came is no {path.suffix[1:]} file",
            hint="is HF_ENDPOINT right, and is there no login page in between?",
            detail=str(error),
        ) from error


def _parquet(path: Path) -> list[Row]:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise DownloadError(
            "this dataset is a Parquet file, and pyarrow reads those",
            hint="pip install 'dflash-deploy[datasets]'",
        ) from error
    rows: list[Row] = parquet.read_table(path).to_pylist()
    return rows
