from __future__ import annotations

from pathlib import Path

from dflash_deploy.envs import lock

TEXT = """
lock-version = "1.0"
[[packages]]
name = "many"
wheels = [{ url = "a", size = 5 }, { url = "b", size = 9 }]
sdist = { url = "c", size = 99 }
[[packages]]
name = "source"
sdist = { url = "c", size = 7 }
[[packages]]
name = "local"
wheels = [{ path = "x.whl", hashes = {} }]
[[packages]]
name = "folder"
directory = { path = "." }
"""


def test_the_largest_wheel_counts_and_what_is_not_told_counts_nothing(tmp_path: Path) -> None:
    (tmp_path / "pylock.toml").write_text(TEXT)
    read = lock.read(tmp_path / "pylock.toml")
    assert read.sizes == {"many": 9, "source": 7, "local": 0, "folder": 0}
    assert read.download == 16
    assert read.unpacked == int(16 * lock.UNPACKED)
