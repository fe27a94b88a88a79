"""Everything a hub and its CDN do wrong: outlasted or told, and nothing partial looks complete."""

from __future__ import annotations

import hashlib
import time
from dataclasses import replace

import pytest

from dflash_deploy.errors import DownloadError
from dflash_deploy.hub.pulling import Pull, bring
from tests.fakes.hub import Fault, Hub
from tests.unit.hub.pulls import (
    BIG,
    fetched,
    look,
    nothing_partial,
    repository,
    whole,
)

SHARD = hashlib.sha256(repository()[BIG]).hexdigest()
MISHAPS = {
    "cut at byte 0": [Fault("/cdn/", "cut", after=0)],
    "cut at byte 1": [Fault("/cdn/", "cut", after=1)],
    "cut again and again": [Fault("/cdn/", "cut", after=20_000, times=8)],
    "429": [Fault("resolve", "status", 429, {"Retry-After": "0"}, times=3)],
    "503 of the CDN": [Fault("/cdn/", "status", 503, times=2)],
    "500 of the API": [Fault("/api/models", "status", 500, times=2)],
    "cut and then 500": [Fault(SHARD, "cut", after=9), Fault(SHARD, "status", 500)],
    "an expired link": [Fault("/cdn/", "status", 403, times=2)],
    "wrong bytes": [Fault("/cdn/", "wrong", after=1000)],
    "wrong small file": [Fault("tokenizer.json", "wrong")],
    "cut small file": [Fault("config.json", "cut", after=3)],
    "a stall": [Fault("/cdn/", "stall", after=50_000, pause=1.0)],
    "a stall before the first byte": [Fault("/cdn/", "stall", pause=1.0)],
    "a drip": [Fault("/cdn/", "drip", after=1000, pause=0.05)],
    "no ranges": [Fault(SHARD, "cut", after=9000), Fault(SHARD, "whole")],
    "another range": [Fault(SHARD, "cut", after=9000), Fault(SHARD, "shifted")],
}


@pytest.mark.parametrize("mishap", MISHAPS)
def test_what_passes_is_outlasted(pull: Pull, fake: Hub, mishap: str, said: list[str]) -> None:
    fake.faults = [replace(fault) for fault in MISHAPS[mishap]]
    began = time.monotonic()

    (folder,) = fetched(pull)

    whole(pull, fake, folder)
    assert not any(fault.times for fault in fake.faults)
    assert any("is not what the hub lists" in line for line in said) is ("wrong" in mishap)
    assert time.monotonic() - began < 5


LASTING = {
    "a broken line": ([Fault("/cdn/", "cut", times=99)], "the connection broke, each time"),
    "a login page": ([Fault("/cdn/", "garbage", times=10**9)], "bytes early, each time"),
    "a dead CDN": ([Fault("/cdn/", "status", 503, times=99)], "answered 503, each time"),
    "links that expire": ([Fault("/cdn/", "status", 403, times=99)], "has expired"),
    "wrong bytes": ([Fault("/cdn/", "wrong", times=99)], "came damaged twice"),
    "no bytes": ([Fault("/cdn/", "stall", pause=1, times=99)], "the connection stalled, each"),
    "a busy hub": (
        [Fault("resolve", "status", 429, {"Retry-After": "3600"}, times=99)],
        "the hub answered 429 and asks to wait for 3600 s",
    ),
}


@pytest.mark.parametrize("lasting", LASTING)
def test_what_lasts_is_told_and_leaves_nothing_that_looks_complete(
    pull: Pull, fake: Hub, lasting: str
) -> None:
    faults, words = LASTING[lasting]
    seen = look(pull)
    fake.faults = [replace(fault) for fault in faults]
    began = time.monotonic()

    with pytest.raises(DownloadError, match=words) as caught:
        bring([seen], pull)

    assert caught.value.exit_code == 6
    assert time.monotonic() - began < 8
    nothing_partial(pull, fake)
    fake.faults = []
    whole(pull, fake, fetched(pull)[0])
