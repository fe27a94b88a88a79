"""uv: found, and run so that it ends however this program ends."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from packaging.version import InvalidVersion, Version

from dflash_deploy.errors import EngineError
from dflash_deploy.launch import guard

OLDEST = Version("0.12")
"""The first that takes a pre-release where a package's own pin names one; SGLang's pins do."""
GRACE = 5.0
KEPT_LINES = 40
NOT_OURS = ("UV_SYSTEM_PYTHON", "UV_BREAK_SYSTEM_PACKAGES", "UV_VENV_SEED", "VIRTUAL_ENV")
"""Settings that would lead an install elsewhere. Indexes, mirrors, proxies and caches are kept."""
_PASSWORD = re.compile(r"(?<=://)[^/@\s]+@")


@dataclass(frozen=True)
class Uv:
    path: str
    version: str


@dataclass(frozen=True)
class Ended:
    code: int
    lines: tuple[str, ...]
    """The last of its output, without passwords."""


def find() -> Uv:
    """The user's own on PATH, else the one installed beside this package. Raises EngineError."""
    seen = [uv for path in _candidates() if (uv := _asked(path))]
    for uv in seen:
        if Version(uv.version) >= OLDEST:
            return uv
    hint = f"{sys.executable} -m pip install 'uv>={OLDEST}'"
    if seen:
        raise EngineError(
            f"uv {seen[0].version} at {seen[0].path} is too old: engines need {OLDEST}", hint=hint
        )
    raise EngineError("uv, which installs engines, was not found", hint=hint)


def _candidates() -> Iterator[str]:
    if on_path := shutil.which("uv"):
        yield on_path
    with suppress(ImportError, FileNotFoundError, AttributeError):
        import uv

        yield uv.find_uv_bin()


def _asked(path: str) -> Uv | None:
    with suppress(OSError, subprocess.SubprocessError, InvalidVersion, IndexError):
        said = _quick([path, "--version"]).split()[1]
        return Uv(path, str(Version(said)))
    return None


def cache_of(uv: Uv) -> Path | None:
    """Where it keeps what it downloaded and unpacked."""
    with suppress(OSError, subprocess.SubprocessError):
        return Path(_quick([uv.path, "cache", "dir"]).strip())
    return None


def _quick(argv: list[str]) -> str:
    return subprocess.run(
        argv, capture_output=True, text=True, timeout=20, check=True, stdin=subprocess.DEVNULL,
        env=environment(),
    ).stdout  # fmt: skip


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in NOT_OURS}
    return kept | {"NO_COLOR": "1", "UV_NO_PROGRESS": "1"}


def run(
    argv: Sequence[str], *, cwd: Path, env: dict[str, str] | None = None,
    on_line: Callable[[str], None] = lambda _: None,
) -> Ended:  # fmt: skip
    """Run one command to its end, line by line.

    The guard between us and it ends its whole tree when this call is left by an exception, and also
    when this program is killed: nothing goes on writing into a folder that was given up.
    """
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", guard.__file__, str(GRACE), "--", *argv],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", cwd=cwd, env=env or environment(), start_new_session=True,
    )  # fmt: skip
    lines: deque[str] = deque(maxlen=KEPT_LINES)
    assert process.stdin  # noqa: S101 - asked for above
    assert process.stdout  # noqa: S101
    try:
        for line in process.stdout:
            lines.append(_PASSWORD.sub("***@", line.rstrip()))
            on_line(lines[-1])
        return Ended(process.wait(), tuple(lines))
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()
