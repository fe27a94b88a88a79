"""Processes that share a benchmark: how they are typed again, and one that is gone."""

from __future__ import annotations

import sys

import pytest

from dflash_deploy.cli._going_on import to_resume, typed
from dflash_deploy.errors import LaunchError
from dflash_deploy.measure.sample import Sample
from dflash_deploy.measure.team import Gloo

TWO = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}


@pytest.fixture
def started(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["x", "bench", "m", "-o", "a.json", "--", "--threads", "1"])
    for name, value in TWO.items():
        monkeypatch.setenv(name, value)


def test_the_next_command_starts_as_many_processes(started, tmp_path):
    begin = "torchrun --nproc_per_node=2 -m dflash_deploy bench m"
    assert typed() == f"{begin} -o a.json -- --threads 1"
    assert to_resume(tmp_path) == f"{begin} --resume {tmp_path} -- --threads 1"


def test_on_several_machines_each_is_told_its_own_command(started, monkeypatch):
    several = {"RANK": "2", "WORLD_SIZE": "4", "GROUP_WORLD_SIZE": "2", "GROUP_RANK": "1",
               "MASTER_ADDR": "head", "MASTER_PORT": "29500"}  # fmt: skip
    for name, value in several.items():
        monkeypatch.setenv(name, value)
    assert typed().split(" -m ")[0].split() == [
        "torchrun", "--nnodes=2", "--node_rank=1", "--master_addr=head", "--master_port=29500",
        "--nproc_per_node=2",
    ]  # fmt: skip


def test_a_process_that_is_gone_is_one_line_and_the_command(started, monkeypatch):
    from torch import distributed

    def gone(*_: object) -> None:
        raise RuntimeError("[gloo/pair.cc:547] Connection closed by peer\nException raised from x")

    monkeypatch.setattr(distributed, "all_gather_object", gone)
    with pytest.raises(LaunchError, match="another process of this torchrun ended") as raised:
        Gloo(0, 2).gather(Sample(answers=(), seconds=0))
    assert raised.value.hint == typed()
    assert raised.value.detail == "[gloo/pair.cc:547] Connection closed by peer"
