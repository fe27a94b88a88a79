"""`plan`: a command that runs as it is printed, and refusals of one line."""

from __future__ import annotations

import json
import os
import shlex

import pytest


def test_plan_prints_a_command_that_a_shell_splits_into_the_plans_argv(dflash):
    command = dflash.run("plan", "gpt-oss-20b", "--engine", "vllm").out
    plan = json.loads(dflash.run("plan", "gpt-oss-20b", "--engine", "vllm", "--format", "json").out)
    words = shlex.split(command.replace("\\\n", ""))  # as a shell joins lines
    env = dict(word.split("=", 1) for word in words[: len(plan["env"])])
    assert env == plan["env"]
    assert words[len(env) :] == plan["argv"]
    assert all(choice["why"] for choice in plan["choices"])


def test_an_older_release_gets_its_own_flags(dflash):
    new = dflash.run("plan", "qwen3.5-27b", "-e", "sglang", "--engine-version", "0.5.23").out
    old = dflash.run("plan", "qwen3-8b", "-e", "sglang", "--engine-version", "0.5.13.post1").out
    assert "--cuda-graph-max-bs-decode" in new
    assert "--disable-radix-cache" not in new
    assert "--cuda-graph-max-bs 64" in old


def test_a_bare_word_after_the_model_is_a_slip_and_no_engine_argument(dflash):
    ended = dflash.run("plan", "gpt-oss-20b", "vllm")
    assert ended.code == 2
    assert "`vllm`" in ended.err
    assert dflash.run("plan", "gpt-oss-20b", "--", "--seed", "7").out.rstrip().endswith("--seed 7")


@pytest.mark.parametrize("option", [("--kv-dtype", "fp8"), ("--tensor-parallel", "4")])
def test_the_embedded_engine_says_which_option_changes_nothing(dflash, option):
    assert option[0] in dflash.run("plan", "smollm2-135m", *option).err


def test_an_address_that_is_none_is_a_usage_error(dflash):
    ended = dflash.run("chat", "http://[::1", "--ask", "Hello?")
    assert ended.code == 2
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("explain", "--file", "{}"), 2),
        (("registry", "import", "{}"), 3),
        (("registry", "check", "{}"), 3),
        (("list", "--registry", "{}"), 3),
    ],
)
def test_a_file_that_is_not_there_is_said_in_one_line_with_a_hint(dflash, tmp_path, words, code):
    done = dflash.run(*(word.format(tmp_path / "nothing") for word in words))
    assert (done.code, done.out) == (code, "")
    assert "Errno" not in done.err
    assert "Traceback" not in done.err
    assert "\nhint: " in done.err


def test_what_does_not_fit_says_what_would(dflash):
    planned = dflash.run(
        "plan", "qwen3-8b", "-e", "vllm", "--gpu", "RTX-4090", "--context", "40960"
    )
    assert planned.code == 4
    assert "does not fit 1 x RTX-4090" in planned.err
    assert "--context 16384" in planned.err


def test_plan_writes_what_others_run_and_says_what_to_type_next(dflash):
    plan = ("plan", "gpt-oss-20b", "-e", "vllm", "--gpu", "H100", "--format")
    for form, next_command in (
        ("docker", "docker logs"), ("compose", "docker compose"), ("k8s", "kubectl apply"),
        ("kserve", "kubectl port-forward"),         ("systemd", "systemctl --user"), ("slurm", "sbatch"), ("skypilot", "sky launch"),
        ("vllm-config", "vllm serve --config"),
    ):  # fmt: skip
        ended = dflash.run(*plan, form)
        assert ended.code == 0
        assert "z-lab/gpt-oss-20b-DFlash" in ended.out
        (line,) = [line for line in ended.err.splitlines() if line.startswith("then: ")]
        assert next_command in line
    assert f"user: {os.getuid()}:{os.getgid()}" in dflash.run(*plan, "compose").out


@pytest.mark.parametrize(
    ("words", "code", "hint"),
    [
        (("gpt-oss-20b", "-e", "sglang", "--format", "vllm-config"), 4, "--engine vllm"),
        (("smollm2-135m", "--format", "docker"), 4, "--engine vllm"),
        (("gpt-oss-20b", "-e", "vllm", "--host", "box", "--format", "compose"), 2, "--host 0.0.0.0"),
    ],
)  # fmt: skip
def test_a_form_that_cannot_carry_a_plan_is_refused(dflash, words, code, hint):
    ended = dflash.run("plan", *words)
    assert (ended.code, ended.out) == (code, "")
    assert f"hint: {hint}" in ended.err


def test_a_recipe_with_a_schedule_holds_from_the_first_release_that_follows_one(dflash):
    asked = ("plan", "qwen3-8b", "-e", "vllm", "--gpu", "H200", "-f", "vllm-recipe")
    assert "min_vllm_version: 0.24.0" in dflash.run(*asked).out
    assert "min_vllm_version: 0.23.0" in dflash.run(*asked, "--block-size", "16").out


def test_a_recipe_holds_for_every_release_from_its_first_on(dflash):
    made = dflash.run("plan", "gpt-oss-20b", "-e", "vllm", "--gpu", "H100", "-f", "vllm-recipe")
    assert made.code == 0, made.err
    assert "min_vllm_version: 0.26.0" in made.out
    assert "VLLM_USE_V2_MODEL_RUNNER: '1'" in made.out  # 0.26 to 0.29 end without it
