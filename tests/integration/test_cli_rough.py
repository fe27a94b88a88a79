"""`dflash bench` and `dflash verify` at servers that somebody else started, and that misbehave."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.fakes.rough import rough
from tests.integration.test_cli_serve import wait_for

SHORT = ("--concurrency", "1", "--num-prompts", "2", "--repeats", "1", "--max-tokens", "4")
PLAIN = {"drafts": False}


@pytest.fixture
def bench(bare, tmp_path):
    def run(*options: str):
        return bare.run("bench", "gpt-oss-20b", *SHORT, "--output", str(tmp_path / "b.json"),
                        *options)  # fmt: skip

    return run


@pytest.fixture
def verify(bare):
    def run(*options: str):
        return bare.run("verify", "gpt-oss-20b", "--concurrency", "2", "--limit", "3",
                        "--max-tokens", "4", *options)  # fmt: skip

    return run


def report(tmp_path: Path) -> dict:
    return json.loads((tmp_path / "b.json").read_text())


def test_another_model_is_not_measured_under_this_ones_name(bench, tmp_path):
    with rough(model="Qwen/Qwen3-8B") as url:
        ended = bench("--url", url)
    assert ended.code == 2
    assert "serves Qwen/Qwen3-8B, and not openai/gpt-oss-20b" in ended.err
    assert "hint: dflash bench Qwen/Qwen3-8B --concurrency 1" in ended.err
    assert not (tmp_path / "b.json").exists()


def test_a_name_that_nobody_knows_is_said_to_be_taken_for_the_model(bench):
    with rough(model="my-own") as url:
        ended = bench("--url", url)
    assert ended.code == 0, ended.err
    assert "serves my-own, which is taken for openai/gpt-oss-20b" in ended.err


def test_a_plain_server_that_drafts_is_no_plain_decoding(bench, bare, tmp_path):
    with rough() as url:
        ended = bench("--url", url, "--baseline-url", url)
    assert ended.code == 0, ended.err
    assert "plain: this server drafts as well" in ended.out
    assert "leave it off" not in ended.out
    assert not re.search(r"\d\.\d\dx", ended.out)
    ended = bare.run("registry", "evidence", "add", str(tmp_path / "b.json"))
    assert ended.code == 2
    assert "its plain server drafted as well" in ended.err


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (("qwen3-8b", "--engine", "vllm", "--synthetic-acceptance", "99"), 2, "cannot yield 99"),
        (("qwen3-8b", "--engine", "vllm", "--arm", "foo"), 2, "foo"),
        (("smollm2-135m", "--synthetic-acceptance", "3"), 4, "cannot make acceptance up"),
    ],
)
def test_what_no_engine_could_do_is_told_before_one_is_looked_for(bare, argv, code, message):
    ended = bare.run("bench", *argv)
    assert ended.code == code, ended.err
    assert message in ended.err
    assert "licence" not in ended.err


@pytest.mark.parametrize("option", ["--url", "--baseline-url"])
@pytest.mark.parametrize("typed", ["", "http://[::1", "localhost:8000", "ftp://localhost"])
def test_what_is_no_address_is_told_and_no_engine_is_looked_for(bench, option, typed):
    with rough() as url:
        ended = bench("--url", url, option, typed)
    assert ended.code == 2
    assert "is no address of a server" in ended.err
    assert "Traceback" not in ended.err


def test_a_server_that_dies_half_way_leaves_what_was_measured(bench, tmp_path):
    with rough("dies") as url:
        ended = bench("--url", url, "--repeats", "9")
    assert ended.code == 7
    assert "no server answers at http://127.0.0.1" in ended.err
    assert f"in {tmp_path / 'b.json'}; dflash bench" in ended.err
    assert not report(tmp_path)["complete"]


@pytest.mark.parametrize("fault", ["metrics html", "metrics vanish", "metrics nan"])
def test_acceptance_that_nobody_counted_is_not_known_and_the_report_can_be_read(
    bench, bare, tmp_path, fault
):
    with rough(fault) as url:
        ended = bench("--url", url)
    assert ended.code == 0, ended.err
    assert "the server does not say what it accepted" in ended.out
    assert report(tmp_path)["cells"][0]["runs"][0]["speculation"] is None
    assert bare.run("report", str(tmp_path / "b.json")).code == 0


@pytest.mark.parametrize("fault", ["metrics html", "metrics vanish", "metrics nan"])
def test_no_gate_passes_by_counters_that_tell_nothing(verify, fault):
    with rough(fault) as url, rough(**PLAIN) as baseline:
        ended = verify("--url", url, "--baseline-url", baseline)
    assert ended.code == 8, ended.err
    assert "nobody says whether anything was drafted" in ended.err


@pytest.mark.parametrize("fault", ["counters fall", "counters begin again"])
def test_a_server_that_is_replaced_meanwhile_is_told_and_ends_it(bench, verify, tmp_path, fault):
    with rough(fault) as url:
        ended = bench("--url", url)
    assert ended.code == 7
    assert f"error: another server answers at {url} than before: its counters fell" in ended.err
    assert not (tmp_path / "b.json").exists()
    with rough(fault) as url, rough(**PLAIN) as baseline:
        ended = verify("--url", url, "--baseline-url", baseline)
    assert ended.code == 7
    assert "another server answers at" in ended.err
    assert "cut short: what was seen so far is no proof" in ended.out


def test_no_gate_passes_by_answers_without_a_word(verify):
    with rough("no tokens") as url, rough("no tokens", **PLAIN) as baseline:
        ended = verify("--url", url, "--baseline-url", baseline)
    assert ended.code == 8, ended.err
    assert "no prompt was answered by both" in ended.err


@pytest.mark.parametrize("fault", ["null message", "content list", "no choices", "odd logprobs"])
def test_an_answer_of_another_shape_is_told_with_the_server_to_look_at(verify, fault):
    with rough(fault) as url, rough(**PLAIN) as baseline:
        ended = verify("--url", url, "--baseline-url", baseline)
    assert ended.code == 7
    assert f"hint: dflash chat {url}" in ended.err
    assert "Traceback" not in ended.err


def test_a_server_that_runs_counts_the_tokens_and_says_its_context(dflash, port, tmp_path):
    (tmp_path / "own.jsonl").write_text(json.dumps({"prompt": "word " * 1000}) + "\n")
    served = ("serve", "gpt-oss-20b", "--engine", "vllm", "--port", str(port))
    running = dflash.start(*served, "--context", "1024")
    wait_for("ready after", running)
    url = f"http://127.0.0.1:{port}"
    for command in (
        ("bench", "--output", str(tmp_path / "bench.json"), "--num-prompts", "1"),
        ("verify", "--baseline-url", url),
    ):
        ended = dflash.run(
            command[0], "gpt-oss-20b", "--url", url, "--concurrency", "1",
            "--workload", str(tmp_path / "own.jsonl"), "--max-tokens", "64", *command[1:],
        )  # fmt: skip
        assert ended.code == 4, ended.err
        assert "1 of 1 prompts of own does not fit a context of 1024: the longest" in ended.err
        assert "1000 tokens: word word" in ended.err
        assert "hint: --workload FILE.jsonl" in ended.err
    running.terminate()
    running.communicate(timeout=15)
