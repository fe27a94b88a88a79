"""`dflash train` as a user runs it, on a tiny target in a folder."""

from __future__ import annotations

import json
import signal

import pytest
import torch

from tests.unit.train import small

SIZES = (
    "--num-prompts", "8", "--held-out", "2", "--max-tokens", "16", "--max-length", "480",
    "--layers", "1", "--block-size", "4", "--batch-size", "2", "--anchors", "4",
)  # fmt: skip
DEMO_DRAFT = "dflash-deploy/SmolLM2-135M-Instruct-DFlash"


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return small.saved_target(tmp_path_factory.mktemp("org") / "tiny")


def test_killed_and_taken_up_again_it_ends_in_an_entry_that_serves(bare, target, tmp_path, port):
    argv = ("train", str(target), *SIZES, "--steps", "12", "--output", str(tmp_path / "run"))
    bare.env["OMP_NUM_THREADS"] = "1"  # a second thread only waits for the first
    process = bare.start(*argv)
    for line in process.stderr:
        if " of 12 steps" in line:
            break
    process.send_signal(signal.SIGKILL)
    process.communicate()
    answers = (tmp_path / "run" / "answers.jsonl").read_bytes()
    ended = bare.run(*argv, "--json")
    assert ended.code == 0, ended.err
    assert "going on with the run" in ended.err
    said = json.loads(ended.out)
    held_out = (tmp_path / "run" / "held-out.jsonl").read_text().splitlines()
    answered = [line for line in held_out if json.loads(line)["input_ids"]]
    found = said["acceptance"]
    assert found["checked"] == found["prompts"] == len(answered)
    assert found["equal"] + found["near_ties"] == found["checked"]
    assert said["recipe"]["seed"] == 0
    assert (tmp_path / "run" / "answers.jsonl").read_bytes() == answers
    curve = (tmp_path / "run" / "curve.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in curve] == list(range(1, 13))
    assert json.loads(curve[-1])["loss"] < json.loads(curve[0])["loss"]
    assert said["draft"] == "run/tiny-DFlash"
    words = ended.err.partition("next: dflash ")[2].split()
    told = bare.run(*words, "--ask", "hi", "--max-tokens", "4", "--port", str(port))
    assert (told.code, "[4 tokens" in told.err) == (0, True), told.err
    plan = bare.run("plan", words[1], "--engine", "vllm", "--gpu", "H100", "--json")
    assert plan.code == 0, plan.err
    # from whatever folder it is typed in
    assert str(target) in json.loads(plan.out)["argv"]
    assert f'"model": "{tmp_path}/run/tiny-DFlash"' in plan.out.replace("\\", "")
    again = bare.run(*argv)
    assert again.code == 0
    assert said["entry"] in again.out


def test_a_dry_run_starts_nothing_and_says_its_sums(bare, tmp_path):
    ended = bare.run("train", "smollm2-135m", "--dry-run", "--json", cwd=tmp_path)
    assert ended.code == 0, ended.err
    said = json.loads(ended.out)
    assert 19e6 < said["estimate"]["draft_parameters"] < 20e6
    assert all(each["formula"] for each in said["estimate"]["time"])
    assert not list(tmp_path.glob("dflash-train*"))
    table = bare.run("train", "smollm2-135m", "--dry-run", cwd=tmp_path).out
    assert "tokens / 22 a second" in table
    going_on = bare.run("train", "smollm2-135m", "--start", DEMO_DRAFT, "--dry-run", cwd=tmp_path)
    assert ": 4 layers, 15.9M parameters" in going_on.out
    assert "goes on with /" in " ".join(going_on.out.split())
    much = ("--dry-run", "--num-prompts", "9999999999", "--json")
    ended = bare.run("train", "smollm2-135m", *much, cwd=tmp_path)
    assert (ended.code, "are free at" in ended.err) == (0, True)
    assert json.loads(ended.out)["disk_bytes"] > 1e12


@pytest.mark.parametrize(
    ("argv", "code", "message", "hint"),
    [
        (("/no/such/folder",), 2, "no folder /no/such/folder", "a target's folder"),
        (("no-such-model",), 3, "no model `no-such-model`", "dflash list"),
        (("smollm2-135m", "--held-out", "1000"), 2, "none is left", "--held-out 250"),
        (("smollm2-135m", "--start", "none"), 2, "no such folder", "a draft's folder or hub id"),
        (("smollm2-135m", "--start", DEMO_DRAFT, "--layers", "5"), 2, "has 4", "leave --layers"),
        (
            ("qwen3-8b", "--start", DEMO_DRAFT),
            4,
            "no draft for Qwen/Qwen3-8B: it reads",
            "dflash list",
        ),
        (("smollm2-135m", "--weights", "int3"), 2, "no weights `int3`", "--weights bf16"),
        (("smollm2-135m", "--weights", "int3", "--dry-run"), 2, "no weights `int3`", "bf16"),
        (
            ("smollm2-135m", "--prompts", "one.jsonl"),
            2,
            "1 prompt is too few",
            "hint: more prompts",
        ),
        (("smollm2-135m", "--prompts", "none.jsonl"), 2, "cannot be read", "one prompt a line"),
        (("smollm2-135m", "--url", "http://a:b@c"), 2, "holds a password", "DFLASH_API_KEY"),
        (("smollm2-135m", "--url", "http://127.0.0.1:9"), 7, "no server answers", "dflash serve"),
        (("smollm2-135m", "--served-name", "it"), 2, "no --url", "--url http://localhost:8000"),
        (("smollm2-135m", "--mask-token", "49152"), 2, "has 49152 tokens", "no text contains"),
    ],
)
def test_a_slip_is_one_line_and_a_hint(bare, tmp_path, argv, code, message, hint):
    (tmp_path / "one.jsonl").write_text('{"prompt": "Hello!"}\n')
    ended = bare.run("train", *argv, cwd=tmp_path)
    assert ended.code == code, ended.err
    assert message in ended.err
    assert hint in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("option", ["--output", "--prompts"])
def test_a_link_that_leads_to_itself_is_one_line(bare, tmp_path, option):
    (tmp_path / "round").symlink_to("round")
    given = {"--output": tmp_path / "out"} | {option: tmp_path / "round"}
    ended = bare.run(
        "train", "smollm2-135m", *(str(word) for pair in given.items() for word in pair)
    )
    assert ended.code == 2
    assert "cannot be read: Too many levels of symbolic links" in ended.err
    assert "Traceback" not in ended.err


def test_ctrl_c_keeps_the_step_and_the_same_command_goes_on(bare, target, tmp_path):
    bare.env["OMP_NUM_THREADS"] = "1"
    argv = ("train", str(target), *SIZES, "--steps", "5000", "--output", str(tmp_path / "run"))
    process = bare.start(*argv)
    for line in process.stderr:
        if " of 5000 steps" in line:
            break
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "the same command goes on" in err
    assert "Traceback" not in err
    curve = (tmp_path / "run" / "curve.jsonl").read_text().splitlines()
    kept = torch.load(tmp_path / "run" / "checkpoint.pt", weights_only=True)
    assert kept["step"] == len(curve)
    other = bare.run(*argv[:-4], "--steps", "9", "--dpace", "--output", str(tmp_path / "run"))
    assert other.code == 2
    assert "steps 5000, not 9; dpace False, not True" in other.err
