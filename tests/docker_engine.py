"""A real Docker daemon of the tests' own, and stand-ins for the images that no registry gives here.

dockerd runs beside whatever Docker the machine has: its own folders, socket and bridge. The images
hold busybox, this machine's Python and the fake engines, under the official images' names: they say
nothing about the real ones, and are never to be shipped.
"""

from __future__ import annotations

import ipaddress
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

if TYPE_CHECKING:
    import docker

ROOT = Path(__file__).resolve().parents[1]
INSTALL = "apt-get install docker.io busybox-static iproute2, and run these tests as root"
LIBRARIES = (
    "libstdc++.so.6", "libgcc_s.so.1", "libm.so.6", "libdl.so.2", "librt.so.1", "libutil.so.1",
    "libpthread.so.0", "libresolv.so.2", "libnss_files.so.2", "libnss_dns.so.2",
)  # fmt: skip
"""What packages from PyPI link or load, beside what Python itself does."""
PATHS = "import sysconfig; p = sysconfig.get_paths(); print(p['stdlib'], p['purelib'])"
ENGINE = """\
#!/usr/bin/python3
import sys
sys.path.insert(0, "/opt/standin")
from tests.fakes.{name} import main
sys.exit(main(sys.argv[1:]))
"""
LAUNCH = """\
import sys
sys.path.insert(0, "/opt/standin")
from tests.fakes.sglang import main
sys.exit(main(["serve", *sys.argv[1:]]))
"""


@dataclass
class DockerEngine:
    """A daemon that answers at `host` (a DOCKER_HOST), and what it was given."""

    host: str
    pid: int
    log: Path
    images: dict[str, tuple[str | None, Path | None]] = field(default_factory=dict)
    """What each stand-in holds: its fake engine and its wheels."""

    @property
    def client(self) -> docker.DockerClient:
        import docker

        return docker.DockerClient(base_url=self.host, timeout=120)

    def give(self, reference: str, *, engine: str | None = None, wheels: Path | None = None) -> str:
        """Make a stand-in answer to this image's name; `engine` is the fake that is inside.

        `wheels` are all that pip finds in there.
        """
        if self.images.get(reference) == (engine, wheels):
            return reference
        name, _, tag = reference.rpartition(":")
        with tempfile.NamedTemporaryFile(suffix=".tar") as file:
            write_root(Path(file.name), engine=engine, wheels=wheels)
            changes = ["ENV PATH=/usr/local/bin:/usr/bin:/bin"]
            if wheels:
                changes.append("ENV PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheelhouse PIP_NO_CACHE_DIR=1")
            self.client.api.import_image_from_file(
                file.name, repository=name, tag=tag, changes=changes
            )
        self.images[reference] = (engine, wheels)
        return reference


@pytest.fixture(scope="session")
def docker_engine() -> Iterator[DockerEngine]:
    """A daemon for the whole run; everything of it goes with it."""
    with daemon() as engine:
        yield engine


@contextmanager
def daemon() -> Iterator[DockerEngine]:
    """One for the block alone, which may be killed."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("dockerd", "ip", "busybox"))):
        pytest.fail(f"no Docker daemon can be started: {INSTALL}")
    # short: a socket's path holds 107 characters
    folder = Path(tempfile.mkdtemp(prefix="dfd-", dir="/tmp"))
    bridge, address = _bridge()
    try:
        with _daemon(folder, bridge, address) as engine:
            yield engine
    finally:
        _end_containers(folder)
        subprocess.run(["ip", "link", "delete", bridge], check=False, capture_output=True)
        _unmount(folder)
        shutil.rmtree(folder, ignore_errors=True)


class _daemon:  # noqa: N801 - used as a function
    def __init__(self, folder: Path, bridge: str, address: str) -> None:
        self._host = f"unix://{folder}/d.sock"
        self._log = folder / "dockerd.log"
        self._argv = [
            "dockerd", f"--host={self._host}", f"--data-root={folder}/data",
            f"--exec-root={folder}/exec", f"--pidfile={folder}/pid", f"--bridge={bridge}",
            f"--fixed-cidr={address}", "--iptables=false", "--ip6tables=false",
            "--ip-forward=false", "--ip-masq=false",
        ]  # fmt: skip

    def __enter__(self) -> DockerEngine:
        self._process = subprocess.Popen(
            self._argv, stdout=self._log.open("wb"), stderr=subprocess.STDOUT
        )
        from docker.errors import DockerException

        engine = DockerEngine(self._host, self._process.pid, self._log)
        for _ in range(300):
            if self._process.poll() is not None:
                break
            try:
                engine.client.ping()
            except (OSError, DockerException):
                time.sleep(0.1)
            else:
                return engine
        self.__exit__()
        pytest.fail(f"dockerd did not start:\n{self._log.read_text()[-2000:]}")

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _end_containers(folder: Path) -> None:
    """Containers outlive a daemon that was killed: each has a shim, which names the daemon's folder."""
    for shim in psutil.process_iter():
        with suppress(psutil.Error):
            if not any(word.startswith(f"{folder}/exec/") for word in shim.cmdline()):
                continue
            for process in (shim, *shim.children(recursive=True)):
                with suppress(psutil.NoSuchProcess):
                    process.kill()


def _bridge() -> tuple[str, str]:
    """A bridge of our own on a network that nobody here uses: its name and its addresses."""
    taken = subprocess.run(
        ["ip", "-4", "-o", "addr"], capture_output=True, text=True, check=True
    ).stdout.split()
    used = [ipaddress.ip_interface(word).network for word in taken if "/" in word]
    free = next(
        network
        for network in ipaddress.ip_network("172.16.0.0/12").subnets(new_prefix=24)
        if network.network_address.packed[1] > 28 and not any(map(network.overlaps, used))
    )
    name = f"dfl{secrets.token_hex(4)}"
    for words in (
        ["link", "add", name, "type", "bridge"],
        ["addr", "add", f"{next(free.hosts())}/24", "dev", name],
        ["link", "set", name, "up"],
    ):
        subprocess.run(["ip", *words], check=True)
    return name, str(free)


def _unmount(folder: Path) -> None:
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for place in sorted((m for m in mounts if m.startswith(str(folder))), reverse=True):
        subprocess.run(["umount", "--lazy", place], check=False)


def write_root(path: Path, *, engine: str | None, wheels: Path | None) -> None:
    """A root file system as a tar archive."""
    with tarfile.open(path, "w") as tar, tempfile.TemporaryDirectory() as made:
        for folder in ("tmp", "var/tmp"):
            _folder(tar, folder, 0o1777)
        for folder in ("bin", "etc", "root", "proc", "sys", "dev", "run", "usr/local/bin"):
            _folder(tar, folder, 0o755)
        _text(tar, made, "etc/passwd", "root:x:0:0:root:/root:/bin/sh\n")
        _text(tar, made, "etc/group", "root:x:0:\n")
        tar.add(shutil.which("busybox"), "bin/busybox", filter=_plain)
        for applet in (
            "sh",
            "mkdir",
            "chmod",
            "ln",
            "rm",
            "ls",
            "cat",
            "id",
            "env",
            "sleep",
            "test",
        ):
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "/bin/busybox"
            tar.addfile(link)
        _python(tar, made)
        if engine:
            _engine(tar, made, engine)
        if wheels:
            tar.add(wheels, "wheelhouse")


def _python(tar: tarfile.TarFile, made: str) -> None:
    program = Path(os.path.realpath(sys.executable))
    standard, pure = subprocess.run(
        [program, "-I", "-c", PATHS],
        capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    tar.add(program, str(program).lstrip("/"), filter=_plain)
    for alias in ("usr/bin/python3", "usr/bin/python"):
        link = tarfile.TarInfo(alias)
        link.type, link.linkname = tarfile.SYMTYPE, str(program)
        tar.addfile(link)
    tar.add(standard, standard.lstrip("/"), filter=_library)
    import pip

    tar.add(Path(pip.__file__).parent, f"{pure.lstrip('/')}/pip", filter=_standard)
    modules = (Path(standard) / "lib-dynload").glob("*.so")
    for library in sorted(_linked([program, *modules]) | _named(LIBRARIES)):
        tar.add(os.path.realpath(library), library.lstrip("/"), filter=_plain)


def _engine(tar: tarfile.TarFile, made: str, engine: str) -> None:
    for folder in ("fakes", "fixtures/logs"):
        tar.add(ROOT / "tests" / folder, f"opt/standin/tests/{folder}", filter=_standard)
    _text(tar, made, "opt/standin/tests/__init__.py", "")
    _text(tar, made, f"usr/local/bin/{engine}", ENGINE.format(name=engine), 0o755)
    if engine == "sglang":
        import sysconfig

        library = sysconfig.get_paths(vars={"base": sys.base_prefix})["purelib"].lstrip("/")
        _text(tar, made, f"{library}/sglang/__init__.py", "")
        _text(tar, made, f"{library}/sglang/launch_server.py", LAUNCH)


def _linked(files: list[Path]) -> set[str]:
    """The shared libraries of these, the loader among them, where they are looked for."""
    shown = subprocess.run(
        ["ldd", *map(str, files)], capture_output=True, text=True, check=False
    ).stdout
    return {word for line in shown.splitlines() for word in line.split() if word.startswith("/")
            and not word.endswith(":")}  # fmt: skip


def _named(libraries: tuple[str, ...]) -> set[str]:
    shown = subprocess.run(
        ["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return {line.split()[-1] for line in shown if line.split()[0] in libraries and "x86-64" in line}


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = "root"
    return info


def _standard(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Without what no program needs: its tests, and bytecode."""
    parts = Path(info.name).parts
    unwanted = {"test", "__pycache__", "idlelib", "tkinter", "turtledemo", "lib2to3"}
    return None if unwanted & set(parts) else _plain(info)


def _library(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if Path(info.name).name.endswith("-packages") else _standard(info)


def _folder(tar: tarfile.TarFile, name: str, mode: int) -> None:
    info = tarfile.TarInfo(name)
    info.type, info.mode = tarfile.DIRTYPE, mode
    tar.addfile(info)


def _text(tar: tarfile.TarFile, made: str, name: str, text: str, mode: int = 0o644) -> None:
    path = Path(made, name.replace("/", "_"))
    path.write_text(text)
    path.chmod(mode)
    tar.add(path, name, filter=_plain)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
