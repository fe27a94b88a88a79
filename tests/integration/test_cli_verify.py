"""`dflash verify` with the fake engines: what passes, what fails, and how it is told."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import time
from pathlib import Path

import httpx
import pytest

from tests.fakes.plans import free_port
from tests.integration.conftest import CommandLine
from tests.integration.test_cli_serve import gone, wait_for
from tests.unit.measure.conftest import until_healthy
from tests.unit.server.fakes import ScriptedDecoder
from tests.unit.server.fakes import running as embedded

SHORT = ("--limit", "4", "--max-tokens", "24", "--workload", "chat")


@pytest.fixture
def dflash(dflash: CommandLine) -> CommandLine:
    """For fakes, which start and count at once."""
    dflash.module = "tests.fakes.hasty"
    dflash.env["FAKE_ENGINE_PHASE_DELAY"] = "0.001"
    return dflash


@pytest.fixture
def verify(dflash, port):
    """Runs a short one on servers that it starts."""

    def run(*options: str, engine: str = "vllm", **knobs: object):
        words = ("verify", "gpt-oss-20b", "--engine", engine, "--port", str(port), *SHORT)
        env = {f"FAKE_ENGINE_{name}": str(value) for name, value in knobs.items()}
        return dflash.run(*words, *options, env=env)

    return run


@pytest.fixture
def serving(dflash):
    """Servers that run already: starts one, with its knobs; its address."""
    running = []

    def start(engine: str = "vllm", model: str = "gpt-oss-20b", **knobs: object) -> str:
        env = {f"FAKE_ENGINE_{name}": str(value) for name, value in knobs.items()}
        at = free_port()
        words = ("serve", model, "--engine", engine, "--port", str(at), "--acceptance", "off")
        running.append(dflash.start(*words, env=env))
        wait_for("ready after", running[-1])
        return f"http://127.0.0.1:{at}"

    yield start
    for process in running:
        process.terminate()
        process.communicate(timeout=15)


@pytest.fixture
def undrafted(engines, port):
    """The address of a fake vLLM that was started without a draft."""
    words = ("serve", "openai/gpt-oss-20b", "--host", "127.0.0.1", "--port", str(port))
    process = subprocess.Popen([str(engines / "vllm"), *words], stderr=subprocess.DEVNULL)
    until_healthy(f"http://127.0.0.1:{port}/health", process)
    yield f"http://127.0.0.1:{port}"
    process.kill()
    process.wait()


def answered(url: str) -> float:
    text = httpx.get(f"{url}/metrics", trust_env=False).text
    counted = re.findall(r"^vllm:generation_tokens_total.* (\S+)$", text, re.MULTILINE)
    return sum(map(float, counted)) / 24


def checks(out: str) -> dict[str, str]:
    """The table's first part."""
    lines = out.split("\n\n", maxsplit=1)[0].splitlines()[1:]
    return {name: found.strip() for name, found in (line.split("  ", 1) for line in lines)}


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_same_answers_pass(verify, tmp_path, engine):
    ended = verify(engine=engine, PIDS=tmp_path / "pids", ACCEPTANCE=4)
    assert ended.code == 0, ended.err
    found = checks(ended.out)
    assert found["exact"] == "4 of 4 (100%)"
    assert found["acceptance"].startswith("4.00 tokens a cycle; on record ")
    assert "lossless here: every answer" in ended.out
    assert ended.err.count(": starting the server") == 2
    assert gone([int(line) for line in (tmp_path / "pids").read_text().split()])


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_near_ties_pass_and_are_shown_with_their_gap(verify, engine):
    ended = verify(engine=engine, BEND="tie:2")
    assert ended.code == 0, ended.err
    found = checks(ended.out)
    assert (found["exact"], found["costly"]) == ("2 of 4 (50%)", "none")
    assert found["near ties"].startswith("2, the widest by 0.02 nats")
    row = next(line for line in ended.out.splitlines() if line.startswith("near tie "))
    assert row.endswith('5  " over"  " swift"  0.02')
    assert max(map(len, ended.out.split("\n\n")[1].splitlines())) <= 80


def test_a_costly_difference_fails_with_both_tokens_and_the_next_command(verify):
    ended = verify(BEND="regret:4")
    assert ended.code == 8
    assert "1 of 4 answers leave plain decoding's where the target was not in doubt" in ended.err
    assert "hint: dflash plan gpt-oss-20b --engine vllm --why" in ended.err
    row = next(line for line in ended.out.splitlines() if line.startswith("COSTLY"))
    assert row.endswith('5  " over"  " slow"  4.30')
    assert "Traceback" not in ended.err


def test_what_may_be_spent_is_the_users_to_say(verify):
    assert verify("--max-regret", "5", BEND="regret").code == 0
    assert verify("--max-regret", "0.01", BEND="tie").code == 8


def test_a_token_that_nobody_named_costs_at_least_so_much(verify):
    ended = verify(BEND="unheard")
    assert ended.code == 8
    assert ">=4.30" in ended.out


def test_going_round_in_circles_fails_though_it_began_with_a_tie(verify):
    ended = verify(BEND="loop")
    assert ended.code == 8
    assert "go round in circles" in ended.err
    assert checks(ended.out)["loops"] == "4: DFlash's alone"


def test_json_is_one_document_that_says_why_it_failed(verify):
    ended = verify("--json", BEND="regret")
    found = json.loads(ended.out)
    assert ended.code == 8
    assert (found["schema"], found["passed"], found["complete"]) == ("dflash.verify/1", False, True)
    assert found["error"]["code"] == "gate"
    assert found["failing"][0]["reason"] == "costly"
    one = found["judgement"]["costly"][0]
    assert one["prompt"]
    assert (one["divergence"]["plain"], one["divergence"]["dflash"]) == (" over", " slow")


def test_samples_of_one_distribution_pass(verify):
    ended = verify("--temperature", "1", "--samples", "24")
    assert ended.code == 0, ended.err
    assert "over 4 prompts" in checks(ended.out)["distribution"]


def test_samples_of_another_distribution_fail(verify):
    ended = verify("--temperature", "1", "--samples", "24", BEND="sampling")
    assert ended.code == 8
    assert "the samples are of two distributions" in ended.err


def test_a_release_that_refuses_log_probabilities_is_read_by_its_text(verify):
    ended = verify("--engine-version", "0.5.17", engine="sglang", VERSION="0.5.17", BEND="tie:2")
    assert ended.code == 0, ended.err
    assert checks(ended.out)["near ties"].startswith("2, the widest by 0.02 nats")


@pytest.mark.parametrize("how", ["none", "refuse"])
def test_without_any_log_probabilities_what_differs_is_untold(verify, how):
    ended = verify(LOGPROBS=how, BEND="tie:4")
    assert ended.code == 8
    assert "does not tell what that cost" in ended.err
    assert verify(LOGPROBS=how).code == 0  # the same texts are the same


def test_a_file_of_ones_own_with_known_answers(verify, tmp_path):
    file = tmp_path / "sums.jsonl"
    file.write_text('{"prompt": "2 + 2?", "answer": "4"}\n{"prompt": "Hello."}\n')
    ended = verify("--workload", str(file))
    assert ended.code == 0, ended.err
    assert checks(ended.out)["right answers"] == "plain 0, DFlash 0 of 1"
    assert checks(ended.out)["compared"] == "6 pairs of answers to chat, sums"


def test_interrupted_while_plain_decoding_answers_it_has_nothing_to_tell(dflash, port, tmp_path):
    env = {"FAKE_ENGINE_ANSWER_DELAY": "0.4", "FAKE_ENGINE_PIDS": str(tmp_path / "pids")}
    words = ("verify", "gpt-oss-20b", "--engine", "vllm", "--port", str(port), *LONG)
    process = dflash.start(*words, env=env)
    wait_for("ready after", process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "")
    assert "interrupted before every pair" in err
    assert f"hint: dflash {' '.join(words)}" in err
    assert "Traceback" not in err
    assert gone([int(line) for line in (tmp_path / "pids").read_text().split()])


def test_a_signal_that_ends_it_says_what_is_kept(dflash, port, tmp_path):
    words = ("verify", "gpt-oss-20b", "--engine", "vllm", "--port", str(port), *LONG)
    # the second start gives the signal the time to come
    env = {"FAKE_ENGINE_PIDS": str(tmp_path / "pids"), "FAKE_ENGINE_PHASE_DELAY": "0.02"}
    process = dflash.start(*words, env=env)
    wait_for(" answers", process)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (128 + signal.SIGTERM, "")
    assert "the same command goes on" in err
    assert gone([int(line) for line in (tmp_path / "pids").read_text().split()])


def test_a_baseline_that_drafts_is_none(serving, dflash):
    fast, slow = serving(), serving()
    ended = dflash.run("verify", "gpt-oss-20b", "--url", fast, "--baseline-url", slow, *SHORT)
    assert ended.code == 8
    assert "the plain server drafts as well" in ended.err
    assert "hint: --baseline-url" in ended.err


def test_servers_that_run_are_compared_side_by_side(serving, undrafted, dflash):
    fast = serving(ACCEPTANCE=4).replace("//", "//somebody:secret@")
    words = ("verify", "gpt-oss-20b", "--url", fast, "--baseline-url", undrafted, *SHORT)
    ended = dflash.run(*words, "--json")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert (found["engine"], found["version"], found["compared"]) == ("vllm", "0.33.0", 4)
    assert (found["acceptance"]["length"], found["acceptance"]["plain_drafts"]) == (4.0, None)
    assert "secret" not in ended.out + ended.err


def test_where_the_schedule_drafts_nothing_plain_decoding_was_compared_with_itself(verify):
    key = "--speculative-config.num_speculative_tokens_per_batch_size"
    ended = verify("--", key, "[[1, 8, 0]]")
    assert ended.code == 8
    assert "nothing was drafted: plain decoding against itself" in ended.err


def test_a_draft_that_never_ran_proves_nothing(undrafted, dflash):
    words = ("verify", "gpt-oss-20b", "--url", undrafted, "--baseline-url", undrafted, *SHORT)
    ended = dflash.run(*words)
    assert ended.code == 8
    assert "nobody says whether anything was drafted" in ended.err
    assert f"hint: curl {undrafted}/metrics" in ended.err


def test_the_embedded_server_answers_both_by_itself(dflash):
    script = ScriptedDecoder(lambda prompt, _: [*b"one two three four"])
    with embedded(script) as server:
        ended = dflash.run("verify", "smollm2-135m", "--url", server.url, *SHORT)
    assert ended.code == 0, ended.err
    assert checks(ended.out)["exact"] == "4 of 4 (100%)"
    assert "serves org/model, which is taken for HuggingFaceTB/SmolLM2-135M-Instruct" in ended.err
    assert {sampling.logprobs for sampling in script.samplings} == {20}


def test_one_url_of_an_engine_needs_a_second(serving, dflash):
    url = serving()
    ended = dflash.run("verify", "gpt-oss-20b", "--url", url, *SHORT)
    assert ended.code == 2
    assert f"hint: dflash verify gpt-oss-20b --url {url} --baseline-url" in ended.err


def test_a_url_that_serves_another_model_is_said(serving, dflash):
    url = serving(model="qwen3-8b")
    ended = dflash.run("verify", "gpt-oss-20b", "--url", url, "--baseline-url", url, *SHORT)
    assert ended.code == 2
    assert f"{url} serves Qwen/Qwen3-8B, and not openai/gpt-oss-20b" in ended.err
    assert f"hint: dflash verify Qwen/Qwen3-8B --url {url}" in ended.err


def test_a_url_that_leads_nowhere(serving, dflash):
    ended = dflash.run("verify", "gpt-oss-20b", "--url", f"{serving()}/nowhere", *SHORT)
    assert ended.code == 7
    assert "/nowhere is no OpenAI-compatible server" in ended.err


LONG = (*SHORT, "--limit", "12", "--concurrency", "1")


def test_a_server_that_was_started_and_dies_is_told(verify):
    ended = verify(CRASH_ON="4")
    assert ended.code == 7
    assert "while it was measured" in ended.err
    assert "out of memory" in ended.err
    assert 'Traceback (most recent call last):\n  File "/' not in ended.err


def test_what_plain_decoding_said_is_kept_where_the_draft_does_not_start(verify, tmp_path):
    ended = verify(CRASH_BLOCK=8)
    assert ended.code == 7
    assert "plain decoding answered is kept (4 of 4): the same command goes on" in ended.err
    again = verify()
    assert again.code == 0, again.err
    assert checks(again.out)["exact"] == "4 of 4 (100%)"
    assert "plain: 4 of 4 answered before" in again.err
    assert again.err.count(": starting the server") == 1
    assert verify().err.count(": starting the server") == 2  # it was over, and nothing is kept


def test_a_verdict_that_nobody_could_read_leaves_what_was_kept(dflash, port, verify):
    words = ("verify", "gpt-oss-20b", "--engine", "vllm", "--port", str(port), *SHORT)
    with Path("/dev/full").open("w") as full:
        process = dflash.start(*words, stdout=full)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1, err
    assert "the output cannot be written: No space left on device" in err
    assert "plain decoding answered is kept (4 of 4): the same command goes on" in err
    assert verify().err.count(": starting the server") == 1
    assert verify().err.count(": starting the server") == 2


def test_another_command_asks_for_itself(verify):
    assert verify(CRASH_BLOCK=8).code == 7
    assert verify("--seed", "1").err.count(": starting the server") == 2


def test_a_server_that_died_half_way_is_asked_for_the_rest(verify, tmp_path):
    ended = verify("--concurrency", "1", CRASH_ON=3)
    assert (ended.code, ended.out) == (7, "")
    said = re.search(r"is kept \((\d of 4)\)", ended.err)
    assert said, ended.err
    again = verify("--concurrency", "1")
    assert again.code == 0, again.err
    assert f"plain: {said[1]} answered before" in again.err
    assert checks(again.out)["compared"] == "4 pairs of answers to chat"


def test_one_that_dies_half_way_leaves_what_was_seen(serving, dflash):
    fast, slow = serving(CRASH_ON=9), serving()
    ended = dflash.run("verify", "gpt-oss-20b", "--url", fast, "--baseline-url", slow, *LONG)
    assert ended.code == 7
    assert f"no server answers at {fast}" in ended.err
    said = checks(ended.out)
    assert "of 12 pairs of answers to chat" in said["compared"]
    assert said["acceptance"].startswith("not counted to its end; on record")
    assert ("no proof" in ended.out, "Traceback" in ended.err) == (True, False)


@pytest.fixture
def ended(serving, dflash):
    """Its words, code, stdout and stderr, where a signal ends it after a few answers."""

    def by(number: signal.Signals):
        fast, slow = serving(ANSWER_DELAY="0.2"), serving()
        words = ("verify", "gpt-oss-20b", "--url", fast, "--baseline-url", slow, *LONG, "--json")
        process = dflash.start(*words)
        while answered(fast) < 3:
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(number)
        return words, *process.communicate(timeout=30), process.returncode

    return by


def test_ctrl_c_says_what_was_seen_so_far(ended):
    _, out, err, code = ended(signal.SIGINT)
    assert code == 130, err
    found = json.loads(out)
    assert 0 < found["compared"] < 12
    assert (found["error"]["code"], "Traceback" in err) == ("interrupted", False)


def test_a_signal_that_ends_it_with_nothing_kept_says_how_it_is_begun_again(ended):
    words, out, err, code = ended(signal.SIGTERM)
    assert (code, out) == (128 + signal.SIGTERM, "")
    assert f"ended by a signal; again: dflash {' '.join(words)}" in err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--samples", "8"], "--temperature 0.8"),
        (["--workload", "tokens:64"], "no answers to compare"),
        (["--workload", "nothing-like-it"], "no workload"),
        (["--baseline-url", "http://127.0.0.1:9"], "needs --url"),
        (["--max-tokens", "1"], "1"),
        (["--no-thinking"], "no thinking mode"),
    ],
)
def test_a_slip_is_one_line_before_anything_starts(verify, options, said):
    ended = verify(*options)
    assert ended.code == 2, ended.err
    assert said in ended.err
    assert "Traceback" not in ended.err
    assert "starting the server" not in ended.err


def test_a_terminal_gets_a_bar_and_tables_of_80_columns(dflash, port):
    here, there = pty.openpty()
    process = dflash.start(
        "verify", "gpt-oss-20b", "--engine", "vllm", "--port", str(port), *SHORT,
        env={"FAKE_ENGINE_BEND": "tie:2", "TERM": "xterm", "COLUMNS": "80", "NO_COLOR": "1"},
        stdout=there, stderr=there,
    )  # fmt: skip
    os.close(there)
    shown = b""
    while True:
        try:
            shown += os.read(here, 65536)
        except OSError:  # its end, on Linux
            break
    assert process.wait(30) == 0
    text = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", shown.decode())
    assert "8/8" in text
    told = text[text.index("CHECK") :].splitlines()
    assert max(map(len, told)) <= 80
