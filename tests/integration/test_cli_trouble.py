"""What goes wrong between a command and its user: words, streams, interruptions."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest


@pytest.mark.parametrize(
    ("argv", "code", "hint"),
    [
        (("plan", "gpt-oss-2b"), 3, "gpt-oss-20b"),
        (("show", "nothing-like-it-at-all"), 3, "dflash list"),
        (("plan", ""), 3, "dflash list"),
        (("plan", " "), 3, "dflash list"),
        (("plan", "gpt-oss-20b", "--gpu", "H900"), 2, "H100"),
        (("plan", "gpt-oss-20b", "--block-size", "64"), 2, "--block-size 8"),
        (("plan", "gpt-oss-20b", "-e", "vllm", "--context", "1"), 2, "--context 192"),
        (
            ("plan", "gpt-oss-20b", "--engine-version", "0.19.0", "-e", "vllm"),
            5,
            "dflash engine install",
        ),
        (("plan", "gpt-oss-20b", "-e", "transformers"), 4, "--engine vllm"),
        (("plan", "kimi-k2.5"), 4, "--trust-remote-code"),
        (("plan", "gpt-oss-120b", "--gpu", "L4"), 4, "--gpu"),
        (("list", "--registry", "/no/such/folder"), 3, None),
        (("plan", "gpt-oss-20b", "--engine", "tgi"), 2, None),
        (("plan",), 2, None),
        (("nonsense",), 2, None),
        (("serve", "gpt-oss-2b"), 3, "gpt-oss-20b"),
        (("chat", "gpt-oss-2b"), 3, "gpt-oss-20b"),
    ],
)
def test_a_wrong_word_is_one_line_a_hint_and_the_documented_code(dflash, argv, code, hint):
    ended = dflash.run(*argv)
    assert ended.code == code
    assert ended.out == ""
    assert "Traceback" not in ended.err
    assert hint is None or hint in ended.err.split("hint:")[1]


def test_an_error_as_json_has_a_stable_code(dflash):
    ended = dflash.run("plan", "gpt-oss-2b", "--json")
    assert ended.code == 3
    assert json.loads(ended.out)["error"]["code"] == "unknown_model"


def test_a_reader_that_goes_away_is_no_error(dflash):
    command = (
        f"{sys.executable} -m dflash_deploy registry schema | head -1; exit ${{PIPESTATUS[0]}}"
    )
    run = subprocess.run(
        ["bash", "-c", command], env=dflash.env, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stderr) == (0, "")


@pytest.mark.parametrize(
    "form", [("--json",), ("--format", "json"), ("--format=json",), ("-f", "json")]
)
def test_every_way_to_ask_for_json_gets_its_errors_as_json(dflash, form):
    ended = dflash.run("plan", "gpt-oss-2b", *form)
    assert json.loads(ended.out)["error"]["code"] == "unknown_model"
    assert dflash.run("plan", "gpt-oss-2b", "--", "--json").out == ""


def test_ctrl_c_while_python_still_imports_is_no_traceback(dflash):
    for delay in (0.03, 0.06, 0.09):
        process = dflash.start("registry", "check")
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
        # before our first line runs, the interpreter itself ends by the signal, or with 1
        assert process.returncode in (0, 1, 130, -signal.SIGINT)
        if process.returncode in (0, 130):
            assert "Traceback" not in err
        assert "dflash_deploy" not in err


@pytest.mark.parametrize("argv", ["list >/dev/full", "list >&-", "chat http://127.0.0.1:9 <&-"])
def test_a_closed_or_full_stream_is_no_traceback(dflash, argv):
    command = f"{sys.executable} -m dflash_deploy {argv}"
    run = subprocess.run(
        ["bash", "-c", command], env=dflash.env, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in run.stderr
