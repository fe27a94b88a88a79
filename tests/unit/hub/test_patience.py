from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest

from dflash_deploy.hub.patience import Passing, Patience, Persistence, Stopped, passes, retry_after
from dflash_deploy.hub.progress import Progress
from dflash_deploy.hub.receive import Link

QUICK = Patience(tries=3, first=0.001, longest=0.002)


def persistence(patience: Patience = QUICK, *, greets: bool = False) -> Persistence:
    return Persistence(patience, threading.Event(), lambda _: None, greets=greets)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7), ({"Retry-After": " 0 "}, 0), ({}, None),
        ({"Retry-After": "soon"}, None), ({"Retry-After": "-3"}, None),
        ({"ratelimit": '"api";r=0;t=55'}, 55), ({"ratelimit": '"api";r=9;t=55'}, None),
    ],
)  # fmt: skip
def test_how_long_the_hub_asks_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


def test_a_date_is_a_time_to_wait() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    assert 85 < (retry_after({"Retry-After": later}) or 0) <= 90
    before = format_datetime(datetime.now(UTC) - timedelta(days=1), usegmt=True)
    assert retry_after({"Retry-After": before}) == 0


@pytest.mark.parametrize(
    ("error", "may_pass"),
    [
        (httpx.ReadTimeout("x"), True), (httpx.ConnectError("refused"), True),
        (httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED]"), False),
        (httpx.UnsupportedProtocol("x"), False), (Passing("x"), True), (OSError(28, "full"), False),
        (ValueError(), False), (KeyboardInterrupt(), False),
    ],
)  # fmt: skip
def test_what_is_worth_asking_again(error: BaseException, may_pass: bool) -> None:
    assert passes(error) is may_pass


@pytest.mark.parametrize(("greets", "tries"), [(False, 3), (True, 2)])
def test_a_hub_that_is_not_there_is_asked_less_often(greets: bool, tries: int) -> None:
    asked = []

    def call() -> None:
        asked.append(1)
        raise httpx.ConnectError("refused")

    with pytest.raises(httpx.ConnectError):
        persistence(greets=greets).ask(call)
    assert len(asked) == tries


def test_headway_counts_anew() -> None:
    asked = []
    asking = persistence()

    def call() -> int:
        asked.append(1)
        if len(asked) < 9:
            asking.gained()
            raise Passing("cut")
        return 7

    assert asking.ask(call) == 7


def test_the_hub_is_waited_for_as_long_as_it_says() -> None:
    asked: list[float] = []

    def call() -> None:
        asked.append(time.monotonic())
        if len(asked) == 1:
            raise Passing("busy", after=0.3)

    persistence().ask(call)
    assert asked[1] - asked[0] >= 0.3


def test_a_wait_that_is_too_long_is_not_begun() -> None:
    def call() -> None:
        raise Passing("busy", after=1e6)

    began = time.monotonic()
    with pytest.raises(Passing):
        persistence().ask(call)
    assert time.monotonic() - began < 1


def test_a_wait_ends_when_the_pull_does() -> None:
    asking = persistence(Patience(first=30))
    threading.Timer(0.05, asking.stop.set).start()
    began = time.monotonic()

    def call() -> None:
        raise Passing("cut")

    with pytest.raises(Stopped):
        asking.ask(call)
    assert time.monotonic() - began < 5


def test_once_told_to_stop_nobody_says_a_word_more() -> None:
    said: list[str] = []
    link = Link("http://hub", QUICK, threading.Event(), said.append)

    def call() -> None:
        link.stop.set()  # an interrupt, while this one is on the line
        raise Passing("cut")

    link.tell("so far")
    with pytest.raises(Stopped):
        link.persistence("a.safetensors").ask(call)
    with pytest.raises(Stopped):
        link.tell("a.safetensors: another program is fetching it")
    assert said == ["so far"]


def test_a_file_that_starts_again_moves_no_figure_back() -> None:
    progress = Progress(100)
    progress.start_from("here", 40)
    assert (progress.done, progress.received) == (40, 0)
    progress.tell("new", 50)
    progress.tell("new", 0)
    assert (progress.done, progress.received) == (90, 50)
    progress.tell("new", 60)
    assert (progress.done, progress.received) == (100, 110)
