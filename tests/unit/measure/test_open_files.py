from __future__ import annotations

import resource

import pytest

from dflash_deploy.errors import UsageError
from dflash_deploy.measure.open_files import SPARE, make_room, most_open
from dflash_deploy.measure.report import Load


@pytest.fixture
def limits(monkeypatch):
    """(soft, hard) of this process, changed and not the system's."""
    held = [(1024, 4096)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: held[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: held.append(pair))
    return held


def test_the_limit_rises_as_far_as_it_takes_and_no_further(limits):
    make_room(800)
    assert limits == [(1024, 4096)]
    make_room(2000)
    assert limits[-1] == (2000 + SPARE, 4096)


def test_what_the_system_does_not_allow_is_said_with_what_it_does(limits):
    with pytest.raises(UsageError, match="10000 requests at once need") as caught:
        make_room(10000)
    assert (caught.value.hint or "").startswith(f"--concurrency {4096 - SPARE}")
    assert len(limits) == 1


def test_what_is_open_at_once():
    loads = [Load(concurrency=8), Load(concurrency=64), Load(rate=2.0)]
    assert most_open(loads, [16, 32, 20]) == 32
    assert most_open([], []) == 0
