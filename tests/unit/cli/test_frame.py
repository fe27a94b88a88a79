from __future__ import annotations

import pytest

from dflash_deploy.cli._frame import line, lines, seconds
from dflash_deploy.launch.detached import record_of
from dflash_deploy.launch.seen import Seen
from dflash_deploy.measure.live import Numbers
from tests.fakes.plans import plan

BUSY = Numbers(
    acceptance_length=12.345,
    acceptance_by_position=tuple(0.99 - 0.05 * place for place in range(15)),
    tokens_per_second=123456.7,
    ttft_seconds=0.21,
    tpot_seconds=0.00839,
    running=256,
    waiting=1024,
    kv_usage=1.0,
)


def seen(numbers: Numbers, state: str = "ready", name: str = "qwen3-4b-8000") -> Seen:
    return Seen(record_of(plan("vllm"), name, log=None), state, numbers)


def test_the_fullest_table_is_80_columns_wide() -> None:
    name = "an-alias-that-is-much-too-long-8000"
    drawn = lines([seen(BUSY), seen(BUSY, "ready, speculation collapsed", name)])

    assert max(map(len, drawn)) <= 80
    assert " ".join(drawn[0].split()) == "NAME ACCEPT TOK/S TTFT TPOT RUN WAIT KV STATE"
    cells = "qwen3-4b-8000 12.35 123457 210ms 8.4ms 256 1024 100% ready"
    assert " ".join(drawn[1].split()) == cells
    assert drawn[2].startswith("  accepted by position, %: 99 94 89")
    assert drawn[3].startswith("an-alias-that-is-much~")
    assert drawn[4] == "  ready, speculation collapsed"


def test_what_is_not_known_is_a_dash() -> None:
    assert lines([seen(Numbers())])[1].split() == ["qwen3-4b-8000", *["-"] * 7, "ready"]


def test_a_pipe_gets_one_line_whatever_is_in_it() -> None:
    assert line(seen(BUSY, "ready, speculation collapsed")).endswith("ready, speculation collapsed")


@pytest.mark.parametrize(
    ("number", "shown"),
    [(0.0004, "0.4ms"), (0.0099, "9.9ms"), (0.25, "250ms"), (1.24, "1.2s"), (75.4, "75s")],
)
def test_seconds(number: float, shown: str) -> None:
    assert seconds(number) == shown
