"""The table of a tuning: a row a load, however many workloads were asked."""

from __future__ import annotations

import msgspec

from dflash_deploy.cli import _tune_told
from dflash_deploy.cli._planning import Wanted
from tests.fakes.reports import report


def test_plain_decoding_is_one_column_that_fits_whatever_was_asked(capsys):
    speeds = {"plain": {1: (100, 101), 1024: (12000,)}, "dflash-16": {1: (400,), 1024: (13000,)}}
    many = report(speeds, workloads=("a", "b", "c", "d", "e", "f", "g"))
    slower = report({"plain": {1: (50,)}}, workloads=("a",)).cells[0]
    _tune_told._table(msgspec.structs.replace(many, cells=(slower, *many.cells[1:])))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["LOAD", "PLAIN", "tok/s", "BLOCK", "16"]
    assert lines[1].split()[:4] == ["1", "50.0", "to", "100"]
    assert lines[2].split()[:2] == ["1024", "12000"]


def test_the_next_command_serves_the_weights_that_were_measured():
    own = ("--a", "1", "--load-format", "dummy")
    wanted = Wanted("smollm2-135m", weights="q4_1", trust_remote_code=True, engine_args=own)
    assert " ".join(_tune_told._served(wanted, "vllm", 8)) == (
        "dflash serve smollm2-135m --engine vllm --weights q4_1 --trust-remote-code"
        " --concurrency 8 -- --a 1"
    )
