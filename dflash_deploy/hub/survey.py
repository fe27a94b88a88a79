"""What a pull would fetch: the files of each repository, what is here of them, and what is not."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

import msgspec

from dflash_deploy.errors import DownloadError
from dflash_deploy.hub import disk, trouble
from dflash_deploy.hub.cache import Cached
from dflash_deploy.hub.listing import File, Listing, listed, not_a_hub
from dflash_deploy.hub.receive import READ, Link, Reception
from dflash_deploy.hub.select import is_weights, select
from dflash_deploy.hub.sources import Part

LARGEST_INDEX = 64 << 20
"""Bytes: the index of a model of a thousand shards has a tenth of it."""


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """One repository at one commit: the files an engine needs of it, and which of them are here."""

    part: Part
    commit: str
    files: tuple[File, ...]
    missing: tuple[File, ...]
    begun: dict[str, int]
    """By digest: bytes of missing files that an earlier run left."""
    skipped: int
    """Bytes of the repository that no engine needs."""
    licence: str | None
    gated: bool
    pinned: bool
    """Whether the registry names the commit; else it is the newest, asked just now."""

    @property
    def size(self) -> int:
        return sum(file.size for file in _once(self.files))

    @property
    def here(self) -> int:
        return self.size - self.to_fetch

    @property
    def to_fetch(self) -> int:
        return sum(file.size - self.begun.get(file.digest, 0) for file in _once(self.missing))


def survey(part: Part, link: Link, cache: Path, *, verify: bool = False) -> Survey:
    """Ask the hub, and look into the cache. Raises DownloadError.

    `verify`: read what is here and compare it with the hub's digests; damaged files are removed.
    """
    listing = ask(part, link)
    cached = Cached(cache, part.source.id)
    by_path = {file.path: file for file in listing.files}
    names, index = select(by_path, part.form, code=part.code)
    if index:
        names = sorted({*names, *indexed(by_path[index], listing, cached, link)})
    if lost := [name for name in names if name not in by_path]:
        raise DownloadError(
            f"{listing.id} lacks {lost[0]}, which its {index} names ({len(lost)} in all)",
            hint=f"https://huggingface.co/{listing.id}/discussions",
        )
    if not any(is_weights(name) for name in names):
        raise DownloadError(
            f"{listing.id} has no {part.form} weights at {listing.commit[:12]}",
            hint=f"is it the right repository? https://huggingface.co/{listing.id}/tree/main",
        )
    files = tuple(by_path[name] for name in names)
    missing = tuple(file for file in files if not _sound(cached, listing.commit, file, verify))
    return Survey(
        part=part, commit=listing.commit, files=files, missing=missing,
        begun={file.digest: cached.begun(file) for file in missing},
        skipped=sum(file.size for file in listing.files if file.path not in set(names)),
        licence=listing.licence or part.licence, gated=listing.gated,
        pinned=part.source.revision is not None,
    )  # fmt: skip


def ask(part: Part, link: Link) -> Listing:
    """The repository as the hub lists it, asked again while that may help."""
    import httpx
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    api = HfApi(endpoint=link.endpoint)
    try:
        return link.persistence(part.source.id, greets=True).ask(lambda: listed(api, part.source))
    except HfHubHTTPError as error:
        raise trouble.refused(part.source, error) from error
    except (OfflineModeIsEnabled, httpx.TransportError) as error:
        raise Unreachable.of(part, link, error) from error
    except httpx.HTTPError as error:  # redirects without end, say
        raise not_a_hub(link.endpoint, str(error)) from error


class Unreachable(DownloadError):
    """The hub does not answer at all: what is in the cache may still do."""

    @classmethod
    def of(cls, part: Part, link: Link, error: Exception) -> Unreachable:
        detail = str(error.__cause__ or error)
        if "CERTIFICATE" in detail:
            return cls(
                f"the certificate of {link.endpoint} is not accepted",
                hint="check the clock (`date`), or SSL_CERT_FILE behind a proxy of your own",
                detail=detail,
            )
        return cls(
            f"the hub at {link.endpoint} cannot be reached, and {part.source.id} is not complete"
            " in the local cache",
            hint="check the network or proxy, or set HF_ENDPOINT to a mirror",
            detail=detail,
        )


def indexed(index: File, listing: Listing, cached: Cached, link: Link) -> set[str]:
    """The weight files that an index names."""
    if index.size > LARGEST_INDEX:
        raise DownloadError(f"{index.path} of {listing.id} has {disk.size(index.size)}")
    found = cached.find(listing.commit, index)
    data = found.read_bytes() if found else _received(index, listing, link)
    return weight_files(data, f"{index.path} of {listing.id}")


def weight_files(data: bytes, name: str) -> set[str]:
    try:
        named = set(msgspec.json.decode(data)["weight_map"].values())
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError) as error:
        raise DownloadError(f"{name} is no index of weights: {error}") from error
    if not all(isinstance(each, str) for each in named):
        raise DownloadError(f"{name} is no index of weights")
    return named


def _received(file: File, listing: Listing, link: Link) -> bytes:
    """A small file into memory, by way of a folder that goes again: a plan leaves no traces."""
    url = link.url(listing.id, listing.commit, file.path)
    with tempfile.TemporaryDirectory(prefix="dflash-") as folder:
        part = Path(folder) / "part"
        for _ in range(2):
            with trouble.transfer_errors(listing.id, link.endpoint):
                whole = Reception(link, url, file, lambda _: None).into(part)
            if whole:
                return part.read_bytes()
            part.unlink()
    raise DownloadError(
        f"{file.path} of {listing.id} came damaged twice",
        hint="a proxy or mirror may alter it: check HF_ENDPOINT",
    )


def _sound(cached: Cached, commit: str, file: File, verify: bool) -> bool:
    path = cached.find(commit, file)
    if path is None or not verify:
        return path is not None
    found = file.hasher()
    with path.open("rb") as stream:
        while chunk := stream.read(READ):
            found.update(chunk)
    if found.hexdigest() == file.digest:
        return True
    path.resolve().unlink()  # the pointer would look complete as well
    return _sound(cached, commit, file, verify)


def _once(files: Iterable[File]) -> Iterable[File]:
    """Files of the same content are one file in the cache."""
    return {file.digest: file for file in files}.values()
