"""A pull: all repositories looked at, checked against the disk, fetched, and made visible."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dflash_deploy.errors import DownloadError, Interrupted
from dflash_deploy.hub import cache, disk, trouble
from dflash_deploy.hub.cache import Cached
from dflash_deploy.hub.endpoint import check_endpoint, check_home
from dflash_deploy.hub.patience import Patience
from dflash_deploy.hub.progress import Progress
from dflash_deploy.hub.receive import Link
from dflash_deploy.hub.survey import Survey
from dflash_deploy.hub.transfer import Job, transfer

Watch = Callable[[Progress], None]


@dataclass(frozen=True)
class Pull:
    """How a pull goes about it: from where, to where, how patiently, and who is told."""

    endpoint: str
    folder: Path
    command: str = "dflash pull MODEL"
    patience: Patience = field(default_factory=Patience)
    reserve: int = disk.RESERVE
    on_wait: Callable[[str], None] = lambda _: None

    @property
    def link(self) -> Link:
        """A fresh one: once stopped, it stays so."""
        return Link(self.endpoint, self.patience, threading.Event(), self.on_wait)


def here(command: str, on_wait: Callable[[str], None]) -> Pull:
    """Into the cache and from the hub that HF_HOME, HF_HUB_CACHE and HF_ENDPOINT name."""
    check_endpoint()
    check_home()
    from huggingface_hub import constants
    from huggingface_hub.utils import logging

    constants.HF_HUB_DISABLE_TELEMETRY = True  # it would ask the hub who it is that asks
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]  # its warnings say again what `on_wait` says
    return Pull(constants.ENDPOINT, cache.root(), command, on_wait=on_wait)


def check_disk(surveys: Sequence[Survey], pull: Pull) -> None:
    """Raises DownloadError if what is still to come does not fit."""
    needed = sum(survey.to_fetch for survey in surveys)
    disk.check(needed, pull.folder, command=pull.command, reserve=pull.reserve)


def bring(surveys: Sequence[Survey], pull: Pull, watch: Watch = lambda _: None) -> list[Path]:
    """Fetch what is missing; the snapshots' folders. Raises DownloadError, and Interrupted.

    A snapshot becomes visible when all of its files are there and have the hub's digests.
    """
    progress = started(surveys)
    jobs = {
        (survey.part.source.id, file.digest): Job(
            Cached(pull.folder, survey.part.source.id), survey.part.source.id, survey.commit, file
        )
        for survey in surveys
        for file in survey.missing
    }
    repositories = ", ".join(survey.part.source.id for survey in surveys)
    with trouble.transfer_errors(repositories, pull.endpoint, pull.folder):
        try:
            transfer(list(jobs.values()), pull.link, progress, lambda: watch(progress))
        except KeyboardInterrupt as error:
            raise interrupted(progress, pull) from error
        except OSError as error:
            if error.errno not in trouble.FULL:
                raise
            raise full(progress, pull) from error
        watch(progress)
        return [publish(survey, pull) for survey in surveys]


def publish(survey: Survey, pull: Pull) -> Path:
    """Make the snapshot visible, if every file of it is there still."""
    cached = Cached(pull.folder, survey.part.source.id)
    if lost := [file.path for file in survey.files if not cached.find(survey.commit, file)]:
        raise DownloadError(
            f"{lost[0]} of {survey.part.source.id} was removed from the cache meanwhile",
            hint=pull.command,
        )
    return cached.publish(survey.commit, survey.files, survey.part.source.revision)


def started(surveys: Sequence[Survey]) -> Progress:
    """The progress before the first byte: what is here counts as done."""
    progress = Progress(sum(survey.size for survey in surveys))
    for survey in surveys:
        missing = {file.digest for file in survey.missing}
        for file in survey.files:
            size = survey.begun.get(file.digest, 0) if file.digest in missing else file.size
            progress.start_from((survey.part.source.id, file.digest), size)
    return progress


def full(progress: Progress, pull: Pull) -> DownloadError:
    left = disk.size(progress.total - progress.done)
    return DownloadError(
        f"the disk is full at {pull.folder}: {left} of {disk.size(progress.total)} are missing",
        hint=f"free that much (`hf cache ls`), then {pull.command}: it goes on from there;"
        f" or HF_HOME=/larger/disk {pull.command}",
    )


def interrupted(progress: Progress, pull: Pull) -> Interrupted:
    return Interrupted(
        f"interrupted: {disk.size(progress.done)} of {disk.size(progress.total)} are here",
        hint=f"{pull.command} goes on from there",
    )
