"""An engine's release into an environment of its own: resolved, weighed, fetched and checked."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from dflash_deploy.envs import lock, places, uv, verify
from dflash_deploy.envs.lock import Lock
from dflash_deploy.envs.needs import Wanted
from dflash_deploy.envs.places import Environment, Marker, Say
from dflash_deploy.envs.trouble import trouble
from dflash_deploy.errors import DownloadError, EngineError
from dflash_deploy.hub import disk

LOCK = "pylock.toml"
_DOWNLOADED = re.compile(r"\s*Downloaded (\S+)")
Watch = Callable[[int, int], None]
"""Bytes of the packages that are here, and of all."""


def nobody(_done: int, _total: int) -> None:
    """Watches nothing."""


@dataclass(frozen=True)
class Installing:
    """One install: with which uv, and where its progress goes."""

    uv: uv.Uv
    say: Say
    watch: Watch = nobody


def install(this: Wanted, how: Installing) -> tuple[Environment, bool]:
    """The environment, and whether it had to be made. A failure of any kind leaves no folder."""
    folder = places.folder(this.name, this.version)
    with places.alone(how.say):
        places.sweep(how.say)
        if folder.exists():
            found = places.read(folder)
            if found.state == "ready":
                return found, False
            how.say(f"{folder} is broken; it is made anew")
            places.erase(folder)
        try:
            _build(this, folder, how)
        except BaseException:
            _give_up(folder)
            raise
        return places.read(folder), True


def _give_up(folder: Path) -> None:
    """What cannot be removed now has no marker, and goes with the next install."""
    with suppress(EngineError):
        if folder.exists():
            places.erase(folder)


def _build(this: Wanted, folder: Path, how: Installing) -> None:
    try:
        _make(this, folder, how)
        resolved = _resolve(this, folder, how)
        _weigh(this, resolved, folder, how)
        _fetch(this, resolved, folder, how)
        how.say("checking it: its version, and its own parser")
        verify.check(this, folder)
        places.mark(folder, Marker(
            engine=this.name, version=this.version, executable=this.engine.executable,
            size=places.size_of(folder), installed=datetime.now(UTC).isoformat("T", "seconds"),
            packages=len(resolved.sizes), uv=how.uv.version,
        ))  # fmt: skip
    except OSError as error:
        raise DownloadError(
            f"{this} could not be installed into {folder}: {error.strerror}",
            hint="XDG_DATA_HOME=/larger/disk, or free some of this one",
        ) from error


def _make(this: Wanted, folder: Path, how: Installing) -> None:
    argv = [how.uv.path, "venv", "--no-project", "--python", this.python, str(folder)]
    ended = uv.run(argv, cwd=places.root())
    if ended.code:
        raise trouble(f"no Python {this.python} for {this}", ended)


def _resolve(this: Wanted, folder: Path, how: Installing) -> Lock:
    how.say(f"resolving {this.pin}")
    wanted, constraints = folder / "wanted.txt", folder / "constraints.txt"
    wanted.write_text(this.pin + "\n")
    constraints.write_text("".join(f"{line}\n" for line in this.constraints))
    ended = uv.run(
        [how.uv.path, "pip", "compile", "--quiet", *_into(folder), "--format", LOCK,
         "--constraint", str(constraints), "--output-file", str(folder / LOCK), str(wanted)],
        cwd=folder,
    )  # fmt: skip
    if ended.code:
        raise trouble(f"{this} cannot be resolved", ended)
    (folder / LOCK).chmod(0o600)  # an index of one's own may be named in it
    return lock.read(folder / LOCK)


def _into(folder: Path) -> list[str]:
    return ["--python", str(folder / "bin" / "python")]


def _weigh(this: Wanted, resolved: Lock, folder: Path, how: Installing) -> None:
    """Stop before the download if it will not fit, unpacked, here or in uv's cache."""
    how.say(
        f"to fetch: {len(resolved.sizes)} packages, {disk.size(resolved.download)}"
        f" (about {disk.size(resolved.unpacked)} unpacked; what uv has already is not fetched)"
    )
    for place in dict.fromkeys([folder, *_cache(how.uv, folder)]):
        there = disk.free(place)
        if resolved.unpacked and resolved.unpacked + disk.RESERVE > there:
            raise DownloadError(
                f"{this} takes about {disk.size(resolved.unpacked)}, and {place} has"
                f" {disk.size(there)} free",
                hint="XDG_DATA_HOME and UV_CACHE_DIR on a larger disk, or `dflash engine list` and"
                " `dflash engine remove` what is not used",
            )


def _cache(program: uv.Uv, folder: Path) -> list[Path]:
    """uv's cache, if it lies on another disk: on the same one its files are linked, not copied."""
    cache = uv.cache_of(program)
    if cache is None:
        return []
    existing = next(path for path in (cache, *cache.parents) if path.is_dir())
    return [] if existing.stat().st_dev == folder.stat().st_dev else [cache]


def _fetch(this: Wanted, resolved: Lock, folder: Path, how: Installing) -> None:
    begun = time.monotonic()
    done = 0

    def read(line: str) -> None:
        nonlocal done
        if found := _DOWNLOADED.match(line):
            done += resolved.sizes.get(found[1], 0)
            how.watch(done, resolved.download)

    how.watch(0, resolved.download)
    ended = uv.run(
        [how.uv.path, "pip", "install", *_into(folder), "--requirements", str(folder / LOCK)],
        cwd=folder, on_line=read,
    )  # fmt: skip
    if ended.code:
        raise trouble(f"{this} could not be fetched; nothing is left of it", ended)
    how.watch(resolved.download, resolved.download)
    how.say(f"installed in {time.monotonic() - begun:.0f} s")


def remove(found: Environment, say: Say) -> None:
    """Take an environment away. Raises EngineError while a server runs from it."""
    from dflash_deploy.envs.users import refuse_in_use

    with places.alone(say):
        refuse_in_use(found)
        if found.path.exists():
            places.erase(found.path)
