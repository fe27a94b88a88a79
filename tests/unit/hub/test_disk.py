"""A disk too small, known before or met on the way."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from dflash_deploy.errors import DownloadError
from dflash_deploy.hub import disk
from dflash_deploy.hub.pulling import Pull, check_disk
from tests.fakes.hub import Hub
from tests.unit.hub.pulls import (
    look,
)


def test_the_disk_is_checked_before_the_first_byte(
    pull: Pull, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = look(pull)
    monkeypatch.setattr(disk, "free", lambda _: seen.size + 99)
    check_disk([seen], replace(pull, reserve=99))
    with pytest.raises(DownloadError, match=r"do not fit: .* 1 B too little") as caught:
        check_disk([seen], replace(pull, reserve=100))
    assert caught.value.exit_code == 6
    assert "HF_HOME=/larger/disk dflash pull big" in str(caught.value.hint)


FULL = """
import sys, resource, signal
from pathlib import Path
from dflash_deploy.errors import DownloadError
from dflash_deploy.hub.pulling import Pull, bring
from tests.unit.hub.pulls import QUICK, look
pull = Pull(sys.argv[1], Path(sys.argv[2]), "dflash pull big", QUICK, 0)
seen = look(pull)
if sys.argv[3:]:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]),) * 2)
try:
    bring([seen], pull)
except DownloadError as error:
    print(error.exit_code, error.message)
blobs = [p for p in Path(sys.argv[2]).glob("models--org--big/blobs/*") if p.is_file()]
print(sorted(p.suffix for p in blobs))
print(list(Path(sys.argv[2]).glob("models--org--big/snapshots/*/*")))
"""
MOUNTED = 'mkdir -p "$1" && mount -t tmpfs -o size=200k none "$1" && shift && exec "$@"'


@pytest.mark.parametrize("kind", ["tmpfs", "quota"])
def test_a_full_disk_leaves_nothing_that_looks_complete(
    fake: Hub, tmp_path: Path, kind: str
) -> None:
    """A small tmpfs where namespaces allow one; a limit on file sizes is the same to a writer."""
    folder = tmp_path / "full"
    namespace = ["unshare", "--user", "--map-root-user", "--mount"]
    mounts = subprocess.run([*namespace, "sh", "-c", MOUNTED, "sh", str(folder), "true"],
                            capture_output=True, check=False)  # fmt: skip
    command = [sys.executable, "-c", FULL, fake.url, str(folder)]
    if kind == "quota" or mounts.returncode:
        command = [*command, "150000"]
    else:
        command = [*namespace, "sh", "-c", MOUNTED, "sh", str(folder), *command]
    run = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=30,
        env=os.environ | {"HF_HUB_OFFLINE": "0", "NO_PROXY": "*"},
    )  # fmt: skip
    said = run.stdout.splitlines()
    assert said[0].startswith(f"6 the disk is full at {folder}: "), run.stderr
    assert ".incomplete" in said[1]
    assert said[2] == "[]"
