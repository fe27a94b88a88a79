"""`uv`: the few commands that an install asks for, their words and their ways to fail.

What it lays down is real: a virtual environment of this interpreter, and a tiny engine in it.
FAKE_UV names a step and how it ends, as `install:disk-full`; FAKE_UV_LOG gets a line a call.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import venv
from pathlib import Path

from tests.fakes import engine_wheel

ROOT = Path(__file__).resolve().parents[2]
WORDS = {
    "disk-full": "error: Failed to download `torch==2.14.0`\n"
    "  cause: failed to write to file `/cache/x`: No space left on device (os error 28)",
    "no-network": "error: Request failed after 3 retries in 5.3s\n"
    "  cause: Failed to fetch: https://user:secret@index.example/simple/vllm/\n"
    "  cause: dns error",
    "no-release": "error: No solution found when resolving dependencies\n"
    "  cause: Because there is no version of vllm==0.33.0 and you require vllm==0.33.0, ...",
    "no-python": "error: No interpreter found for Python >=3.10 in managed installations",
    "odd": "error: something that nobody foresaw",
}
LOCK = """\
lock-version = "1.0"
created-by = "uv"

[[packages]]
name = "{name}"
version = "{version}"
wheels = [{{ url = "https://index.example/{name}.whl", size = 300000000, hashes = {{}} }}]

[[packages]]
name = "torch"
version = "2.14.0"
wheels = [{{ url = "https://index.example/torch.whl", size = 500000000, hashes = {{}} }}]
"""


def install_fake_uv(bin_dir: Path, version: str = "0.13.9") -> None:
    bin_dir.mkdir(parents=True, exist_ok=True)
    path = bin_dir / "uv"
    path.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        f"from tests.fakes.uv import main\nsys.exit(main(sys.argv[1:], {version!r}))\n"
    )
    path.chmod(0o755)


def main(argv: list[str], version: str) -> int:
    if log := os.environ.get("FAKE_UV_LOG"):
        with Path(log).open("a") as file:
            file.write(" ".join(argv) + "\n")
    if argv == ["--version"]:
        print(f"uv {version} (x86_64-unknown-linux-gnu)")
        return 0
    if argv == ["cache", "dir"]:
        print(os.environ.get("UV_CACHE_DIR", "/tmp/no-cache"))
        return 0
    steps = {"venv": make, "compile": resolve, "install": fetch}
    step = argv[0] if argv[0] == "venv" else argv[1]
    wanted, _, how = os.environ.get("FAKE_UV", "").partition(":")
    return steps[step](argv, how if wanted == step else "")


def make(argv: list[str], how: str) -> int:
    if how:
        return fail(how)
    venv.create(argv[-1], symlinks=True)
    return 0


def resolve(argv: list[str], how: str) -> int:
    if how:
        return fail(how)
    name, _, version = Path(argv[-1]).read_text().strip().partition("==")
    Path(argv[argv.index("--output-file") + 1]).write_text(LOCK.format(name=name, version=version))
    return 0


def fetch(argv: list[str], how: str) -> int:
    """Half of it is there before it fails: that is when installs die."""
    python = Path(argv[argv.index("--python") + 1])
    (packages,) = python.parents[1].glob("lib/python*/site-packages")
    name, _, version = (python.parents[1] / "wanted.txt").read_text().strip().partition("==")
    say(f"Downloading torch (476.8MiB)\nDownloading {name} (286.1MiB)\n Downloaded torch")
    (packages / "torch").mkdir()
    if how not in ("", "broken", "other-release", "other-flags"):
        return fail(how)
    made = engine_wheel.files(
        name, "0.30.0" if how == "other-release" else version,
        broken=how == "broken", flag="--none" if how == "other-flags" else
        "--speculative-config" if name == "vllm" else "--speculative-algorithm",
    )  # fmt: skip
    for path, text in made.items():
        (packages / path).parent.mkdir(exist_ok=True)
        (packages / path).write_text(text)
    script = python.parent / name
    script.write_text(f"#!{python}\nimport sys\nfrom {name} import main\nsys.exit(main())\n")
    script.chmod(0o755)
    say(f" Downloaded {name}\nInstalled 2 packages in 1ms")
    return 0


def fail(how: str) -> int:
    if how == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "hang":
        Path(os.environ["FAKE_UV_PID"]).write_text(str(os.getpid()))
        time.sleep(120)
    say(WORDS[how])
    return 2


def say(lines: str) -> None:
    sys.stderr.write(lines + "\n")
    sys.stderr.flush()
