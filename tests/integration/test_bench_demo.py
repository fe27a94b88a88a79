"""`dflash bench` for real: the demo pair on the embedded engine, alone and shared by processes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.test_cli_serve import wait_for

TINY = (
    "bench", "smollm2-135m", "--engine", "transformers", "--weights", "q4_1", "--workload", "chat",
    "--repeats", "1",
)  # fmt: skip


@pytest.fixture(scope="module")
def cache(demo_target: Path) -> dict[str, str]:
    """The converted weights, where the command line looks for them.

    One thread: a second only waits for the first where other tests run beside these.
    """
    return {"XDG_CACHE_HOME": str(demo_target.parents[2]), "OMP_NUM_THREADS": "1"}


def test_the_demo_pair_plain_against_dflash_on_one_server(bare, port, cache, tmp_path):
    process = bare.start(
        *TINY, "--port", str(port), "--num-prompts", "2", "--max-tokens", "24",
        "--output", str(tmp_path / "bench.json"), env=cache,
    )  # fmt: skip
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    report = json.loads((tmp_path / "bench.json").read_text())
    plain, fast = (cell["runs"][0] for cell in report["cells"])
    # lossless: the same prompts, the same number of tokens
    assert plain["output_tokens"] == fast["output_tokens"]
    assert plain["failed"] == fast["failed"] == 0
    assert plain["speculation"]["drafts"] == 0
    speculation = fast["speculation"]
    assert 1 + speculation["accepted"] / speculation["drafts"] > 1.2
    assert sum(speculation["per_position"]) == pytest.approx(
        speculation["accepted"] / speculation["drafts"]
    )
    assert fast["tpot"]["p50"] > 0
    assert "dflash-8" in out
    assert err.count("starting the server") == 1


def test_a_server_of_it_that_runs_already_is_measured_against_itself(bare, port, cache, tmp_path):
    server = bare.start(
        "serve", "smollm2-135m", "--weights", "q4_1", "--port", str(port), env=cache
    )
    wait_for("ready after", server, 120)
    words = ("--url", f"http://127.0.0.1:{port}", "--num-prompts", "2", "--max-tokens", "24")
    measured = bare.start("bench", "smollm2-135m", *words, "--repeats", "1", "--json", env=cache,
                          cwd=tmp_path)  # fmt: skip
    out, err = measured.communicate(timeout=240)
    assert measured.returncode == 0, err
    plain, fast = json.loads(out)["cells"]
    assert (plain["arm"], fast["arm"]) == ("plain", "dflash")
    assert plain["runs"][0]["speculation"]["drafts"] == 0
    assert fast["runs"][0]["speculation"]["drafts"] > 0
    server.send_signal(signal.SIGTERM)
    assert server.wait(20) == 0


def test_torchrun_shares_the_prompts_and_one_process_reports(bare, port, cache, tmp_path):
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2",
        "-m", "dflash_deploy", *TINY, "--port", str(port), "--num-prompts", "3",
        "--max-tokens", "8", "--output", str(tmp_path / "bench.json"),
    ]  # fmt: skip
    ended = subprocess.run(
        command, env=bare.env | cache, capture_output=True, text=True, timeout=280, check=False
    )
    assert ended.returncode == 0, ended.stderr
    report = json.loads((tmp_path / "bench.json").read_text())
    assert report["ranks"] == 2
    assert [cell["runs"][0]["requests"] for cell in report["cells"]] == [3, 3]
    assert ended.stdout.count("LOAD") == 1
    assert ended.stderr.count("the whole report") == 1


def test_torchrun_is_for_the_embedded_engine(dflash):
    ended = dflash.run(
        "bench", "gpt-oss-20b", "--engine", "vllm", env={"RANK": "1", "WORLD_SIZE": "2"}
    )
    assert ended.code == 2
    assert "torchrun" in ended.err


@pytest.mark.parametrize("command", ["tune", "verify"])
def test_torchrun_is_for_a_benchmark_alone(dflash, command):
    ended = dflash.run(command, "smollm2-135m", env={"RANK": "1", "WORLD_SIZE": "2"})
    assert ended.code == 2
    assert f"hint: dflash {command} MODEL, without torchrun" in ended.err
    assert "starting the server" not in ended.err
