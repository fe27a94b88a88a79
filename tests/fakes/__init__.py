"""Fake engines: real processes, real HTTP and the engines' own wire formats, no model.

`install_fakes` writes executables named `vllm` and `sglang`; `knobs.py` lists what they can be
told to do through the environment.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """\
#!{python}
import os
import sys

os.environ.setdefault("FAKE_ENGINE_VERSION", {version!r})
sys.path.insert(0, {root!r})

from tests.fakes.{name} import main

sys.exit(main(sys.argv[1:]))
"""


def install_fakes(
    bin_dir: Path, version: str | None = None, *, vllm: str = "0.33.0", sglang: str = "0.5.23"
) -> None:
    """Write both executables into `bin_dir`; `version` is for both where it is given."""
    bin_dir.mkdir(parents=True, exist_ok=True)
    for name, release in (("vllm", vllm), ("sglang", sglang)):
        path = bin_dir / name
        path.write_text(
            SCRIPT.format(
                python=sys.executable, root=str(ROOT), name=name, version=version or release
            )
        )
        path.chmod(0o755)
