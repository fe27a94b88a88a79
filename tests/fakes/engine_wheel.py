"""A tiny distribution named like an engine, whose program answers as the engine's does."""

from __future__ import annotations

import zipfile
from pathlib import Path

PROGRAM = """\
import sys

__version__ = {version!r}


def main():
    if {broken!r}:
        raise ImportError("libcudart.so.13: cannot open shared object file")
    if sys.argv[1:] in (["--version"], ["version"]):
        print(__version__)
    elif sys.argv[1:2] == ["serve"] and sys.argv[2].startswith("--help"):
        print("usage: {name} serve [model_tag] {flag} CONFIG")
    else:
        raise SystemExit(2)
"""


def files(
    name: str, version: str, *, flag: str = "--speculative-config", broken: bool = False
) -> dict[str, str]:
    """The wheel's files by their path in site-packages, all but RECORD."""
    info = f"{name}-{version}.dist-info"
    return {
        f"{name}/__init__.py": PROGRAM.format(name=name, version=version, flag=flag, broken=broken),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name} = {name}:main\n",
    }


def build(folder: Path, name: str, version: str, **knobs) -> Path:
    """Write the wheel into `folder`, to be found by `--find-links`."""
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    contents = files(name, version, **knobs)
    record = f"{name}-{version}.dist-info/RECORD"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in contents.items():
            archive.writestr(path, text)
        archive.writestr(record, "".join(f"{path},,\n" for path in [*contents, record]))
    return wheel
