"""Several processes that share a benchmark's prompts, as `torchrun` starts them; or one alone."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

import msgspec

from dflash_deploy.errors import LaunchError, UsageError
from dflash_deploy.measure.sample import Sample


class Team(Protocol):
    rank: int
    ranks: int

    def gather(self, sample: Sample) -> list[Sample]:
        """Everybody's, to everybody; waits for the last."""


class Alone:
    rank, ranks = 0, 1

    def gather(self, sample: Sample) -> list[Sample]:
        return [sample]


class Gloo:
    """Over torch.distributed: the processes of one `torchrun`."""

    def __init__(self, rank: int, ranks: int) -> None:
        self.rank, self.ranks = rank, ranks

    def gather(self, sample: Sample) -> list[Sample]:
        from torch import distributed

        packed: list[bytes | None] = [None] * self.ranks
        with _together():
            distributed.all_gather_object(packed, msgspec.msgpack.encode(sample))
        return [msgspec.msgpack.decode(part or b"", type=Sample) for part in packed]


def ranks(environ: Mapping[str, str] = os.environ) -> tuple[int, int]:
    """This process's number and how many there are. Raises UsageError."""
    try:
        return int(environ.get("RANK", "0")), int(environ.get("WORLD_SIZE", "1"))
    except ValueError as error:
        raise UsageError(
            "RANK and WORLD_SIZE are numbers that torchrun sets", hint="unset RANK WORLD_SIZE"
        ) from error


def launched(environ: Mapping[str, str] = os.environ) -> list[str]:
    """What was typed before the command's own words. Raises UsageError."""
    count = ranks(environ)[1]
    if count == 1:
        return ["dflash"]
    here = environ.get("LOCAL_WORLD_SIZE", str(count))
    return ["torchrun", *_nodes(environ), f"--nproc_per_node={here}", "-m", "dflash_deploy"]


def _nodes(environ: Mapping[str, str]) -> list[str]:
    """The options of one of several machines, by what torchrun tells its processes."""
    if environ.get("GROUP_WORLD_SIZE", "1") == "1":
        return []
    names = {"nnodes": "GROUP_WORLD_SIZE", "node_rank": "GROUP_RANK",
             "master_addr": "MASTER_ADDR", "master_port": "MASTER_PORT"}  # fmt: skip
    return [f"--{option}={environ[name]}" for option, name in names.items() if name in environ]


def check_single(command: str) -> None:
    """Raises UsageError in each of several processes: their servers would collide."""
    if ranks()[1] > 1:
        raise UsageError(
            f"torchrun shares the prompts of `dflash bench` alone, and not of `dflash {command}`",
            hint=f"dflash {command} MODEL, without torchrun",
        )


@contextmanager
def team() -> Iterator[Team]:
    """The processes that this one was started with."""
    rank, count = ranks()
    if count == 1:
        yield Alone()
        return
    from torch import distributed

    with _together():
        distributed.init_process_group("gloo", rank=rank, world_size=count)
    try:
        yield Gloo(rank, count)
    finally:
        distributed.destroy_process_group()


@contextmanager
def _together() -> Iterator[None]:
    """What torch says of a process that is gone is a line of its own sources."""
    try:
        yield
    except RuntimeError as error:
        said = str(error).strip().splitlines() or [type(error).__name__]
        raise LaunchError(
            "another process of this torchrun ended, or cannot be reached",
            hint=shlex.join([*launched(), *sys.argv[1:]]), detail=said[0],
        ) from error  # fmt: skip
