"""A real Slurm of the tests' own: its controller and a daemon for each of two nodes, on one machine.

The nodes have cores and cards that are not there: jobs get the numbers of the cards, and run here.
"""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

INSTALL = "apt-get install slurmctld slurmd slurm-client, and run these tests as root"
NODES = ("n1", "n2")
CARDS = 8
CONFIGURATION = """\
ClusterName=dflash
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/controller.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/controller.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
SlurmdParameters=config_overrides
KillWait=5
{nodes}
PartitionName=all Nodes=ALL Default=YES State=UP
"""
NODE = "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=64 Gres=gpu:{cards}"
GRES = "AutoDetect=off\nName=gpu File={folder}/nvidia[0-{last}] Flags=nvidia_gpu_env\n"


@dataclass(frozen=True)
class Slurm:
    """A cluster whose commands find it by `env`."""

    env: dict[str, str]

    def run(self, *argv: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            list(map(str, argv)), env=os.environ | self.env | env,
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip

    def states(self) -> list[str]:
        return self.run("sinfo", "--noheader", "--Node", "--format=%t").stdout.split()


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    if os.geteuid() != 0 or not all(map(shutil.which, ("slurmctld", "slurmd", "sbatch"))):
        pytest.fail(f"no Slurm can be started: {INSTALL}")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dfs-")))
        cluster = Slurm({"SLURM_CONF": str(_configured(folder))})
        stack.enter_context(_daemon(cluster, folder, "slurmctld", "-D"))
        for name in NODES:
            stack.enter_context(_daemon(cluster, folder, "slurmd", "-D", "-N", name))
        _wait(cluster, folder)
        yield cluster


def _configured(folder: Path) -> Path:
    host, ports = socket.gethostname(), _free_ports(1 + len(NODES))
    for name in ("state", *NODES):
        (folder / name).mkdir()
    for number in range(CARDS):
        # slurmd asks for a device, and opens none
        os.mknod(folder / f"nvidia{number}", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    nodes = [
        NODE.format(name=name, host=host, port=port, cards=CARDS)
        for name, port in zip(NODES, ports[1:], strict=True)
    ]
    (folder / "gres.conf").write_text(GRES.format(folder=folder, last=CARDS - 1))
    file = folder / "slurm.conf"
    file.write_text(
        CONFIGURATION.format(folder=folder, host=host, port=ports[0], nodes="\n".join(nodes))
    )
    return file


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


@contextmanager
def _daemon(cluster: Slurm, folder: Path, *argv: str) -> Iterator[None]:
    with (folder / "daemons.log").open("ab") as log:
        process = subprocess.Popen(argv, env=os.environ | cluster.env, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(cluster: Slurm, folder: Path) -> None:
    for _ in range(300):
        if cluster.states() == ["idle"] * len(NODES):
            return
        time.sleep(0.1)
    pytest.fail(f"no node came up:\n{(folder / 'daemons.log').read_text()[-2000:]}")
