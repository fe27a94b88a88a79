"""Whether all is ready, by an exit code; and servers over several nodes."""

from __future__ import annotations

import os
import signal

import pytest

from tests.integration.test_cli_detach import machine as machine  # noqa: PLC0414 - a fixture
from tests.integration.test_cli_detach import until


def test_a_check_says_by_its_exit_code_whether_all_are_ready(machine):
    assert machine.dflash.run("ps", "--check").code == 7
    machine.serve()
    assert machine.dflash.run("ps", "--check").code == 0
    os.kill(machine.living()[0], signal.SIGKILL)
    assert until(lambda: not machine.living())
    assert until(lambda: machine.dflash.run("ps", "--check").code == 7)


def test_a_check_has_another_code_for_a_draft_of_no_use(machine):
    machine.serve("--acceptance", "warn", ACCEPTANCE=1.0)

    checked = machine.dflash.run("ps", "--check")

    assert checked.code == 8
    assert "speculation collapsed" in checked.err
    assert "dflash plan openai/gpt-oss-20b --engine vllm --why" in checked.err


def test_each_node_runs_what_is_its_own(machine, port):
    told = ("--nodes", "2", "--gpu", "H100", "--head", "127.0.0.1")
    first = machine.serve(*told, "--node-rank", "0")
    assert first.code == 0, first.err
    assert machine.record()["argv"][-6:] == [
        "--nnodes", "2", "--node-rank", "0", "--master-addr", "127.0.0.1",
    ]  # fmt: skip

    at = ("serve", "gpt-oss-20b", "--engine", "vllm", "--port", str(machine.port + 1))
    second = machine.dflash.start(*at, *told, "--node-rank", "1", env=machine.env({}))
    assert any("Started server process" in line for line in second.stderr)
    second.send_signal(signal.SIGINT)
    assert second.wait(20) == 130


@pytest.mark.parametrize(
    ("words", "hint"),
    [((), "--node-rank 0 --head ADDRESS"), (("--node-rank", "2", "--head", "a"), "")],
)
def test_a_node_must_know_which_it_is(dflash, words, hint):
    slip = dflash.run(
        "serve", "gpt-oss-20b", "--engine", "vllm", "--nodes", "2", "--gpu", "H100", *words
    )
    assert (slip.code, hint in slip.err) == (2, True)
