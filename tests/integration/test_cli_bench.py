"""`dflash bench` with the fake engines, as a process: tables, files, interruptions."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

from tests.integration.conftest import CommandLine
from tests.integration.test_cli_serve import gone, wait_for

SHORT = ("--num-prompts", "4", "--repeats", "2", "--max-tokens", "24", "--block-sizes", "8")


@pytest.fixture
def dflash(dflash: CommandLine) -> CommandLine:
    """For fakes, which start and count at once."""
    dflash.module = "tests.fakes.hasty"
    dflash.env["FAKE_ENGINE_PHASE_DELAY"] = "0.001"
    return dflash


@pytest.fixture
def bench(dflash, port, tmp_path):
    """Runs a short one on a fake engine; its report is in `bench.json`."""

    def run(*options: str, engine: str = "vllm", env: dict[str, str] | None = None):
        return dflash.run(*words(port, tmp_path, *options, engine=engine), env=env)

    return run


def words(port: int, tmp_path: Path, *options: str, engine: str = "vllm") -> list[str]:
    output = [] if "--resume" in options else ["--output", str(tmp_path / "bench.json")]
    return [
        "bench", "gpt-oss-20b", "--engine", engine, "--port", str(port), "--concurrency", "1,4",
        *SHORT, *output, *options,
    ]  # fmt: skip


def report(tmp_path: Path) -> dict:
    return json.loads((tmp_path / "bench.json").read_text())


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_plain_against_dflash_in_one_table(bench, dflash, port, tmp_path, engine):
    pids = tmp_path / "pids"
    env = {"FAKE_ENGINE_CHUNK_DELAY": "0.004", "FAKE_ENGINE_PIDS": str(pids)}
    ended = bench(engine=engine, env=env)
    assert ended.code == 0, ended.err
    lines = ended.out.splitlines()
    assert lines[2].split()[:5] == ["LOAD", "ARM", "TOK/S", "±", "GAIN"]
    assert [line.split()[1] for line in lines[3:7]] == ["plain", "dflash-8"] * 2
    assert "8/8 dflash-8 c=4" in ended.err
    found = report(tmp_path)
    assert found["complete"]
    assert len(found["cells"]) == 4
    assert all(len(cell["runs"]) == 2 for cell in found["cells"])
    run = found["cells"][-1]["runs"][0]
    assert run["output_tokens"] == 4 * 24
    assert run["speculation"]["accepted"] > run["speculation"]["drafts"]
    assert found["verdict"]
    plain, fast = found["arms"]
    assert not [word for word in plain["argv"] if "spec" in word.lower()]
    assert fast["ready_seconds"] > 0
    assert gone([int(line) for line in pids.read_text().split()])
    # what a server said can still be read
    logs = [dflash.run("logs", f"bench-{arm}-{port}").out for arm in ("plain", "dflash-8")]
    assert all(logs)


def test_json_is_the_report_and_nothing_else(bench, tmp_path):
    ended = bench("--json", "--concurrency", "2", "--repeats", "1")
    assert json.loads(ended.out) == report(tmp_path)


def test_an_open_loop(bench, tmp_path):
    ended = bench("--rate", "50", "--repeats", "1")
    assert ended.code == 0, ended.err
    assert {cell["load"].get("rate") for cell in report(tmp_path)["cells"]} == {None, 50.0}


def test_other_arms_are_told_in_the_engines_words(bench, tmp_path):
    ended = bench("--arm", "ngram", "--arm", "mtp:1", "--repeats", "1", "--concurrency", "2")
    assert ended.code == 0, ended.err
    arms = {arm["name"]: arm for arm in report(tmp_path)["arms"]}
    assert list(arms) == ["plain", "dflash-8", "ngram-5", "mtp-1"]
    assert '"method": "ngram"' in " ".join(arms["ngram-5"]["argv"])


def test_a_schedule_of_the_recipe_is_measured_as_one(dflash, port, tmp_path):
    folder = tmp_path / "own" / "models" / "openai"
    folder.mkdir(parents=True)
    (folder / "gpt-oss-20b-tuned.yaml").write_text(
        "extends: openai/gpt-oss-20b\n"
        "recipes:\n"
        "  - {name: mine, when: {engine: vllm, version: '>=0.30.0'}, block_size: 8,\n"
        "     schedule: [[1, 2, 7], [3, 8, 3]], why: w, source: s}\n"
    )
    given = [*words(port, tmp_path, "--registry", str(folder.parents[1]), "--repeats", "1")]
    at = given.index("--block-sizes")
    ended = dflash.run(*given[:at], *given[at + 2 :])
    assert ended.code == 0, ended.err
    arms = {arm["name"]: arm["schedule"] for arm in report(tmp_path)["arms"]}
    assert arms == {"plain": [], "dflash-8-schedule": [[1, 2, 7], [3, 8, 3]]}


def test_where_a_schedule_drafts_nothing_the_draft_rests(bench, tmp_path):
    key = "--speculative-config.num_speculative_tokens_per_batch_size"
    ended = bench("--concurrency", "4", "--", key, "[[1, 8, 0]]")
    assert ended.code == 0, ended.err
    said = " ".join(report(tmp_path)["verdict"])
    assert "dflash-8-schedule, mixed: its draft rests at 4 in flight, where 100%" in said
    assert "what limits it" not in said
    assert "ACCEPT" not in ended.out


def test_another_method_that_does_not_start_ends_nothing_but_itself(bench, tmp_path):
    """A target without such a head, say; 4 draft tokens are a block of 5."""
    once = ("--repeats", "1", "--concurrency", "2")
    ended = bench("--arm", "mtp:4", "--arm", "ngram", *once, env={"FAKE_ENGINE_CRASH_BLOCK": "5"})
    assert ended.code == 0, ended.err
    assert "warning: mtp-4 is left out: " in ended.err
    found = report(tmp_path)
    assert found["complete"]
    assert [cell["arm"] for cell in found["cells"]] == ["plain", "dflash-8", "ngram-5"]


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_made_up_acceptance_is_labelled_wherever_it_shows(bench, tmp_path, engine):
    ended = bench(
        "--synthetic-acceptance", "published", "--load-format", "dummy", "--repeats", "1",
        "--concurrency", "2", engine=engine,
        env={"FAKE_ENGINE_ECHO": str(tmp_path / "echo")},
    )  # fmt: skip
    assert ended.code == 0, ended.err
    assert "(SYNTHETIC acceptance)" in ended.out.splitlines()[1]
    assert report(tmp_path)["synthetic"] is True
    fast = report(tmp_path)["arms"][1]
    assert fast["synthetic_length"] > 2
    assert len(fast["synthetic_rates"]) == 7
    assert "dummy" in fast["argv"]
    assert "were counted" in " ".join(ended.err.split())  # the fake accepts what its knob says
    echo = json.loads((tmp_path / "echo").read_text())
    if engine == "vllm":
        assert '"synthetic"' in " ".join(echo["argv"])
    else:
        assert float(echo["env"]["SGLANG_SIMULATE_ACC_LEN"]) == fast["synthetic_length"]


@pytest.mark.parametrize(("engine", "release"), [("vllm", "0.33.0"), ("sglang", "0.5.23")])
def test_servers_that_run_are_measured_side_by_side(dflash, port, tmp_path, engine, release):
    running = dflash.start("serve", "gpt-oss-20b", "--engine", engine, "--port", str(port))
    wait_for("ready after", running)
    url = f"http://somebody:secret@127.0.0.1:{port}"
    ended = dflash.run(
        "bench", "gpt-oss-20b", "--url", f"{url}/v1", "--baseline-url", url, "--concurrency", "2",
        *SHORT, "--weights", "mxfp4", "--output", str(tmp_path / "bench.json"),
    )  # fmt: skip
    other = dflash.run(
        "bench", "gpt-oss-20b", "--url", url, "--baseline-url", url, "--weights", "q9",
        "--output", str(tmp_path / "other.json"),
    )  # fmt: skip
    assert (other.code, "gpt-oss-20b has no weights `q9`" in other.err) == (2, True)
    running.terminate()
    running.communicate(timeout=15)
    assert ended.code == 0, ended.err
    found = report(tmp_path)
    assert [arm["name"] for arm in found["arms"]] == ["plain", "dflash-8"]
    assert (found["engine"], found["version"]) == (engine, release)
    assert found["weights"] == "mxfp4"
    assert "secret" not in json.dumps(found) + ended.out + ended.err


def test_ctrl_c_keeps_what_is_measured_and_resume_goes_on(dflash, port, tmp_path):
    pids = tmp_path / "pids"
    env = {"FAKE_ENGINE_CHUNK_DELAY": "0.005", "FAKE_ENGINE_PIDS": str(pids)}
    process = dflash.start(*words(port, tmp_path), env=env)
    wait_for("2/8", process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert f"--resume {tmp_path / 'bench.json'}" in err
    assert err.count("--resume") == 1
    assert "plain" in out
    assert gone([int(line) for line in pids.read_text().split()])
    found = report(tmp_path)
    assert not found["complete"]
    before = sum(len(cell["runs"]) for cell in found["cells"])
    assert 2 <= before < 8
    ended = dflash.run(*words(port, tmp_path, "--resume", str(tmp_path / "bench.json")))
    assert ended.code == 0, ended.err
    assert f"{8 - before}/{8 - before} dflash-8" in ended.err
    again = report(tmp_path)
    assert again["complete"]
    assert again["cells"][0]["runs"][0] == found["cells"][0]["runs"][0]


def test_a_report_names_no_folder_of_the_machine(bench, tmp_path):
    (tmp_path / "own.jsonl").write_text('{"prompt": "What is one and one?"}\n')
    ended = bench("--workload", str(tmp_path / "own.jsonl"), "--repeats", "1",
                  "--concurrency", "2")  # fmt: skip
    assert ended.code == 0, ended.err
    assert "own.jsonl" in report(tmp_path)["command"]
    assert "tmp" not in (tmp_path / "bench.json").read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_it_leaves_the_way_to_go_on(dflash, port, tmp_path, number):
    pids = tmp_path / "pids"
    env = {"FAKE_ENGINE_CHUNK_DELAY": "0.005", "FAKE_ENGINE_PIDS": str(pids)}
    process = dflash.start(*words(port, tmp_path), env=env)
    wait_for("1/8", process)
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert f"--resume {tmp_path / 'bench.json'} goes on" in err
    assert gone([int(line) for line in pids.read_text().split()])


def test_who_is_in_a_hurry_waits_for_no_engine(dflash, port, tmp_path):
    """The second SIGTERM ends what ignores the first, as the second Ctrl-C does."""
    pids = tmp_path / "pids"
    env = {"FAKE_ENGINE_CHUNK_DELAY": "0.005", "FAKE_ENGINE_PIDS": str(pids),
           "FAKE_ENGINE_IGNORE_SIGTERM": "1"}  # fmt: skip
    process = dflash.start(*words(port, tmp_path), env=env)
    wait_for("1/8", process)
    process.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=5)
    assert process.returncode == 128 + signal.SIGTERM
    assert gone([int(line) for line in pids.read_text().split()], seconds=2)


def test_a_file_is_one_benchmarks_at_a_time(dflash, port, tmp_path):
    first = dflash.start(*words(port, tmp_path), env={"FAKE_ENGINE_NEVER_READY": "1"})
    wait_for("starting the server", first)
    for command in ("bench", "tune"):
        ended = dflash.run(command, *words(port, tmp_path)[1:])
        assert ended.code == 2
        assert f"another benchmark writes to {tmp_path / 'bench.json'}" in ended.err
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=30)
    assert dflash.run(*words(port, tmp_path, "--repeats", "1", "--concurrency", "1")).code == 0


def test_a_reader_that_leaves_takes_nothing_with_it(dflash, port, tmp_path):
    page = tmp_path / "page.html"
    once = ("--repeats", "1", "--concurrency", "1")
    process = dflash.start(*words(port, tmp_path, *once, "--report", str(page)))
    process.stdout.close()
    err = process.stderr.read()
    assert process.wait(30) == 0
    assert f"the whole report: {tmp_path / 'bench.json'}" in err
    assert page.read_text().startswith("<!doctype html>")


def test_resume_with_another_workload_keeps_the_first(bench, dflash, tmp_path):
    once = ("--repeats", "1", "--concurrency", "1")
    assert bench(*once).code == 0
    ended = bench(*once, "--workload", "math", "--resume", str(tmp_path / "bench.json"))
    assert ended.code == 0, ended.err
    assert {cell["workload"] for cell in report(tmp_path)["cells"]} == {"mixed", "math"}
    assert dflash.run("report", str(tmp_path / "bench.json")).code == 0


def test_resume_refuses_another_seed(bench, tmp_path):
    assert bench("--concurrency", "2", "--repeats", "1").code == 0
    ended = bench("--resume", str(tmp_path / "bench.json"), "--seed", "9")
    assert ended.code == 2
    assert "its seed is 0, not 9" in ended.err


def test_an_earlier_report_is_not_lost(bench, tmp_path):
    (tmp_path / "bench.json").write_text("precious")
    ended = bench()
    assert ended.code == 2
    assert f"--resume {tmp_path / 'bench.json'}" in ended.err
    assert (tmp_path / "bench.json").read_text() == "precious"


@pytest.mark.parametrize(("number", "hint"), [(signal.SIGINT, "hint:"), (signal.SIGTERM, "again:")])
def test_ended_before_its_first_run_it_leaves_nothing(dflash, port, tmp_path, number, hint):
    process = dflash.start(*words(port, tmp_path), env={"FAKE_ENGINE_NEVER_READY": "1"})
    wait_for("starting the server", process)
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert "before a run was complete" in err
    assert f"{hint} dflash {' '.join(words(port, tmp_path))}" in err
    assert not list(tmp_path.glob("*.json"))


@pytest.mark.parametrize(("linger", "code"), [("0", 1), ("2", 0)])
def test_a_server_that_dies_is_told_and_what_was_measured_is_kept(bench, tmp_path, linger, code):
    ended = bench(env={"FAKE_ENGINE_CRASH_ON": "22", "FAKE_ENGINE_LINGER": linger})
    assert ended.code == 7
    assert f"error: vLLM ended with exit code {code} while it was measured" in ended.err
    assert "torch.OutOfMemoryError: CUDA out of memory" in ended.err
    assert "nanobind" not in ended.err
    assert "--resume" in ended.err
    assert 'Traceback (most recent call last):\n  File "/' not in ended.err
    found = report(tmp_path)
    assert [len(cell["runs"]) for cell in found["cells"]] == [1]
    assert not found["complete"]


def test_failed_requests_are_counted_and_shown(bench):
    ended = bench("--repeats", "1", env={"FAKE_ENGINE_FAIL_EVERY": "20"})  # in one cell of two
    assert ended.code == 0, ended.err
    assert ended.out.splitlines()[2].split()[-1] == "FAILED"
    assert "the fake fails every 20. request" in ended.out


def test_servers_that_answer_too_little_everywhere_are_told_and_end_it_with_7(bench, tmp_path):
    once = ("--repeats", "1", "--concurrency", "2")
    ended = bench(*once, "--json", env={"FAKE_ENGINE_FAIL_EVERY": "2"})
    assert ended.code == 7
    assert json.loads(ended.out)["complete"]
    assert "in no cell were enough requests answered to count its speed" in ended.err
    assert "hint: dflash serve gpt-oss-20b --engine vllm" in ended.err


def test_a_server_that_refuses_all_is_told_with_where_its_words_are(bench, port):
    ended = bench(env={"FAKE_ENGINE_STATUS": "503"})
    assert ended.code == 7
    assert "answers no request: status 503: the fake was told to answer so" in ended.err
    assert f"hint: dflash logs bench-plain-{port}" in ended.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--concurrency", "0"], "is no number"),
        (["--rate", "-1"], "is no rate"),
        (["--block-sizes", "x"], "is no number"),
        (["--arm", "medusa"], "no arm `medusa`"),
        (["--workload", "nothing-like-it"], "no workload"),
        (["--no-thinking"], "no thinking mode"),
        (["--synthetic-acceptance", "99"], "cannot yield"),
        (["--synthetic-acceptance", "2", "--arm", "mtp"], "for DFlash arms"),
        (["--url", "http://127.0.0.1:9", "--arm", "mtp"], "decodes as it was started"),
        (["--baseline-url", "http://127.0.0.1:9"], "needs --url"),
        (["--output", "/no/such/folder/x.json"], "cannot be written"),
        (["--output", "/tmp/x.html"], "--output writes JSON"),
        (["--output", "-"], "--json prints the report"),
        (["--concurrency", "8"], "4 requests a run never have 8 in flight"),
        (["--concurrency", "70000"], "no number from 1 to 65536"),
        (["--resume", "/no/such/file.json"], "cannot be"),
    ],
)
def test_a_slip_is_one_line_before_anything_starts(bench, options, said):
    ended = bench(*options)
    assert ended.code == 2, ended.err
    assert said in ended.err
    assert "Traceback" not in ended.err
    assert "starting the server" not in ended.err


def test_it_is_told_again_as_a_page_and_beside_an_earlier_one(bench, tmp_path):
    old, page = tmp_path / "old.json", tmp_path / "page.html"
    once = ("--repeats", "1", "--concurrency", "2")
    assert bench(*once).code == 0
    (tmp_path / "bench.json").rename(old)
    ended = bench(*once, "--compare", str(old), "--report", str(page))
    assert ended.code == 0, ended.err
    assert "Compared" in ended.out
    assert "BEFORE" in ended.out
    assert page.read_text().startswith("<!doctype html>")


@pytest.mark.parametrize("slip", [("--report", "page.pdf"), ("--compare", "none.json")])
def test_what_cannot_be_told_afterwards_is_said_before_a_server_starts(bench, slip):
    ended = bench(*slip)
    assert ended.code == 2
    assert "starting the server" not in ended.err


def test_prompts_that_do_not_fit_the_context_are_refused_before_anything_starts(bench, tmp_path):
    pids = tmp_path / "pids"
    ended = bench(
        "--context", "1024", "--workload", "tokens:1010", env={"FAKE_ENGINE_PIDS": str(pids)}
    )
    assert ended.code == 4, ended.err
    assert "4 of 4 prompts of tokens-1010 do not fit a context of 1024" in ended.err
    assert "hint: --context 1280" in ended.err
    assert not pids.exists()
    assert not (tmp_path / "bench.json").exists()
