"""`dflash explain` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

COMMANDS = Path(__file__).parents[1] / "fixtures" / "commands"


def test_a_command_after_the_dashes(dflash) -> None:
    done = dflash.run("explain", "--gpu", "B200", "--", "python", "-m", "sglang.launch_server",
                  "--model-path", "openai/gpt-oss-20b", "--attention-backend", "fa3",
                  "--speculative-algorithm", "DFLASH",
                  "--speculative-draft-model-path", "z-lab/gpt-oss-20b-DFlash")  # fmt: skip
    assert done.code == 0
    assert "fa3 runs on Ampere" in done.out
    assert "sglang serve" in done.out


def test_a_file_as_json(dflash) -> None:
    path = COMMANDS / "qwen3.5-35b-sglang.txt"
    done = dflash.run("explain", "--gpu", "B200", "--json", "--file", str(path))
    (command,) = json.loads(done.out)["commands"]
    assert command["target"] == "Qwen/Qwen3.5-35B-A3B"
    assert {"stale", "unneeded", "fine"} <= {item["verdict"] for item in command["findings"]}
    assert "--mamba-radix-cache-strategy extra_buffer" in command["right"]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ((), 2, "one command after `--`, or one --file"),
        (("--", "ls", "-l"), 2, "none of this starts a DFlash server"),
        (("--", "vllm serve 'open"), 2, "never closed"),
        (("--file", "/nowhere"), 2, "cannot be read"),
        (("--engine-version", "latest", "--", "vllm", "serve", "m"), 2, "is not a release"),
    ],
)
def test_what_is_not_understood_is_one_line(dflash, arguments, code, says) -> None:
    done = dflash.run("explain", *arguments)
    assert done.code == code
    assert says in done.err
    assert "Traceback" not in done.err


def test_a_model_that_is_not_in_the_registry_is_still_judged(dflash) -> None:
    done = dflash.run("explain", "--", "vllm", "serve", "me/own", "--nope")
    assert done.code == 3
    assert "no such option" in done.out
    assert "no model `me/own`" in done.out


def test_an_endless_file_is_refused_at_once(dflash) -> None:
    done = dflash.run("explain", "--file", "/dev/zero")
    assert (done.code, "too long" in done.err) == (2, True)


def test_more_commands_than_a_text_has(dflash, tmp_path) -> None:
    path = tmp_path / "many.txt"
    path.write_text("vllm serve Qwen/Qwen3-8B\n" * 300)
    done = dflash.run("explain", "--file", str(path))
    assert (done.code, "over 200 commands" in done.err) == (2, True)


def test_bytes_that_are_no_text_do_not_end_it(dflash) -> None:
    done = dflash.run("explain", "--json", "--", "vllm", "serve", "\udcff", "\x1b[31m")
    assert done.code == 3
    assert "\x1b" not in done.out
    assert json.loads(done.out)["commands"]


@pytest.mark.parametrize(
    ("gpu", "text", "code"),
    [
        ("H100", "vllm serve Qwen/Qwen3-8B", 0),
        ("H100", "vllm serve Qwen/Qwen3-8B; vllm serve me/own", 3),
        ("RTX-4090", "vllm serve moonshotai/Kimi-K2.5", 4),
        ("RTX-4090", "vllm serve me/own; vllm serve moonshotai/Kimi-K2.5", 3),
    ],
)
def test_the_exit_code_is_that_of_the_first_without_a_right_command(dflash, gpu, text, code):
    done = dflash.run("explain", "--gpu", gpu, "--", text)
    assert done.code == code
    assert ("no right command" in done.out) == (code > 0)
