"""`list`, `show`, `plan`, `registry`: data on stdout, the rest on stderr, documented exit codes."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time

import pytest


def test_list_is_one_line_a_model(dflash):
    listed = dflash.run("list")
    assert (listed.code, listed.err) == (0, "")
    header, *rows = listed.out.splitlines()
    assert header.split()[:4] == ["MODEL", "BLOCK", "VLLM", "SGLANG"]
    assert any(row.startswith("gpt-oss-20b") for row in rows)
    assert all(len(row) <= 80 for row in rows)


def test_list_filters_by_name_and_engine(dflash):
    assert len(dflash.run("list", "gpt-oss").out.splitlines()) == 3
    local = dflash.run("list", "--engine", "transformers", "--json")
    names = {model["name"] for model in json.loads(local.out)["models"]}
    assert "smollm2-135m" in names
    assert "gpt-oss-20b" not in names


def test_what_nothing_serves_is_listed_last(dflash):
    rows = dflash.run("list").out.splitlines()[1:]
    served = ["not servable" not in row for row in rows]
    assert served == sorted(served, reverse=True)
    assert False in served
    assert all(row.split()[2:5] == ["-", "-", "-"] for row in rows if "not servable" in row)


def test_list_finds_a_family(dflash):
    listed = dflash.run("list", "nemotron-h", "--json").out
    assert [model["family"] for model in json.loads(listed)["models"]] == ["nemotron-h"]


def test_list_of_nothing_is_no_error(dflash):
    listed = dflash.run("list", "no-such-model")
    assert (listed.code, listed.out) == (0, "")
    assert "dflash list" in listed.err


def test_show_holds_the_published_table(dflash):
    shown = dflash.run("show", "gemma-4-31b")
    assert shown.code == 0
    assert "8.59" in shown.out
    assert "5.8x" in shown.out
    assert "embeddings" in shown.out
    assert shown.err == ""
    assert not set(shown.out) & set("█▏\x1b")  # a pipe gets letters


def test_show_of_a_draft_is_about_that_draft(dflash):
    drafts = ("meta-models/Muse-Glimmer-30B-assistant", "z-lab/Muse-Glimmer-30B-DFlash2")
    for draft, other in (drafts, drafts[::-1]):
        shown = dflash.run("show", draft.lower()).out
        assert shown.index(f"\n{draft}\n") < shown.index(f"\n{other}\n")
        assert f"dflash show {other}" in shown
        assert ("vllm-assistant" in shown) == draft.endswith("assistant")
        assert ("240/s" in shown or "3.49x" in shown) == draft.endswith("assistant")


def test_show_of_a_draft_has_no_caution_about_another(dflash):
    shown = dflash.run("show", "nvidia/Kimi-K2.6-DFlash").out
    assert "EAGLE-3" in shown
    assert "no run of this draft" not in shown
    assert "no run of this draft" in dflash.run("show", "kimi-k2.6").out


def test_show_says_from_when_an_engine_serves_it_and_why_another_does_not(dflash):
    shown = dflash.run("show", "qwen3.5-27b").out
    assert "vllm from 0.26.0: untested" in shown
    assert "vllm-project/vllm#40898" in shown  # where that is from
    assert "transformers: no recipe" in shown
    assert "cannot be rolled back" in shown


def test_show_of_what_nothing_serves_says_why_and_offers_nothing(dflash):
    for model in ("qwen3-14b", "JonasLoos/Qwen3.8-27B-DFlash2-b32"):
        shown = dflash.run("show", model)
        assert shown.code == 0
        assert "  unserved  " in shown.out
        assert "ENGINES" not in shown.out
        assert "RECIPES" not in shown.out


def test_show_as_json_has_what_follows_from_the_rules(dflash):
    shown = json.loads(dflash.run("show", "gemma-4-31b", "--json").out)
    assert {"name", "target", "aliases", "drafts", "engines", "floors", "best_speedup", "layer",
            "files", "entry"} <= set(shown)  # fmt: skip
    vllm = shown["served"]["vllm"]
    assert (shown["draft"], vllm["status"]) == ("z-lab/gemma-4-31B-it-DFlash", "degraded")
    assert vllm["first_release"]["version"] == shown["floors"]["vllm"] == "0.26.0"
    assert {"gemma-scale", "request-limits"} <= {item["rule"] for item in vllm["limits"]}
    unread = json.loads(dflash.run("show", "asf0/Qwen3.8-27B-DFlash", "--json").out)
    assert (unread["draft"], unread["served"]) == ("asf0/Qwen3.8-27B-DFlash", {})


def test_show_says_which_file_an_overlay_is(dflash, tmp_path):
    file = tmp_path / "mine" / "models" / "me" / "mine.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("extends: openai/gpt-oss-20b\naliases: [ours]\n")
    shown = dflash.run("show", "ours", "--registry", str(tmp_path / "mine")).out
    assert str(file) in shown


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


@pytest.mark.parametrize(
    ("argv", "code", "hint"),
    [
        (("plan", "gpt-oss-2b"), 3, "gpt-oss-20b"),
        (("show", "nothing-like-it-at-all"), 3, "dflash list"),
        (("plan", "gpt-oss-20b", "--gpu", "H900"), 2, "H100"),
        (("plan", "gpt-oss-20b", "--block-size", "64"), 2, "--block-size 8"),
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


def test_a_broken_entry_names_file_line_and_field(dflash, tmp_path):
    file = tmp_path / "registry" / "models" / "me" / "mine.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("aliases: [mine]\ntarget:\n  family: 7\n")
    ended = dflash.run("registry", "check", str(tmp_path / "registry"))
    assert ended.code == 3
    assert f"{file}:3: target.family" in ended.err


def test_check_lists_every_problem_of_an_overlay(dflash, tmp_path):
    file = tmp_path / "registry" / "models" / "me" / "mine.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(
        "extends: openai/gpt-oss-20b\n"
        "recipes:\n"
        "  - {name: mine, when: {engine: vllm}, block_size: 99, why: w, source: s,"
        " flags: [--config=/etc/passwd]}\n"
    )
    ended = dflash.run("registry", "check", str(tmp_path / "registry"), "--json")
    assert ended.code == 3
    messages = [problem["message"] for problem in json.loads(ended.out)["problems"]]
    assert any("99" in message for message in messages)
    assert any("--config" in message for message in messages)


def test_the_schema_is_a_json_schema_that_closes_its_objects(dflash):
    schema = json.loads(dflash.run("registry", "schema").out)
    assert schema["$defs"]["Draft"]["additionalProperties"] is False


def test_a_reader_that_goes_away_is_no_error(dflash):
    command = (
        f"{sys.executable} -m dflash_deploy registry schema | head -1; exit ${{PIPESTATUS[0]}}"
    )
    run = subprocess.run(
        ["bash", "-c", command], env=dflash.env, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stderr) == (0, "")


def test_an_overlay_in_the_users_folder_is_read(dflash, tmp_path):
    folder = tmp_path / "config" / "dflash" / "registry" / "models" / "me"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text(
        "extends: openai/gpt-oss-20b\naliases: [ours]\n"
        "recipes: [{name: ours, when: {engine: vllm}, block_size: 4, why: measured here, source: us}]\n"
    )
    plan = json.loads(dflash.run("plan", "ours", "-e", "vllm", "--json").out)
    assert (plan["model"], plan["block_size"]) == ("openai/gpt-oss-20b", 4)


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


def test_a_bare_word_after_the_model_is_a_slip_and_no_engine_argument(dflash):
    ended = dflash.run("plan", "gpt-oss-20b", "vllm")
    assert ended.code == 2
    assert "`vllm`" in ended.err
    assert dflash.run("plan", "gpt-oss-20b", "--", "--seed", "7").out.rstrip().endswith("--seed 7")


@pytest.mark.parametrize("argv", ["list >/dev/full", "list >&-", "chat http://127.0.0.1:9 <&-"])
def test_a_closed_or_full_stream_is_no_traceback(dflash, argv):
    command = f"{sys.executable} -m dflash_deploy {argv}"
    run = subprocess.run(
        ["bash", "-c", command], env=dflash.env, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in run.stderr


def test_a_check_of_nothing_is_told(dflash, tmp_path):
    (tmp_path / "empty").mkdir()
    ended = dflash.run("registry", "check", str(tmp_path / "empty"))
    assert ended.code == 3
    assert "no entry was found" in ended.err


def test_a_foreign_draft_has_no_path_inside_the_registry(dflash, tmp_path):
    file = tmp_path / "registry" / "models" / "me" / "mine.yaml"
    file.parent.mkdir(parents=True)
    text = dflash.run("show", "smollm2-135m", "--json").out
    draft = json.loads(text)["entry"]["drafts"][0] | {"id": "me/draft"}
    file.write_text(f"extends: openai/gpt-oss-20b\ndrafts: [{json.dumps(draft)}]\n")
    ended = dflash.run("registry", "check", str(tmp_path / "registry"), "--json")
    assert any("ship here" in problem["message"] for problem in json.loads(ended.out)["problems"])


@pytest.mark.parametrize(
    "option", [("--kv-dtype", "fp8"), ("--tensor-parallel", "4"), ("--gpu", "H100")]
)
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


def test_list_of_what_some_cards_hold(dflash):
    listed = dflash.run("list", "--gpu", "RTX-4090")
    assert listed.code == 0
    rows = {row.split()[0]: row.split()[1:] for row in listed.out.splitlines()[1:]}
    assert rows["qwen3-8b"][:3] == ["vllm", "1", "16384"]
    assert rows["smollm2-135m"] == ["transformers", "-", "8192", "-", "-"]
    assert "qwen3.5-27b" not in rows
    assert all(len(line) <= 80 for line in listed.out.splitlines())
    asked = dflash.run("list", "--gpu", "RTX-4090:4", "--json").out
    found = {model["model"]: model for model in json.loads(asked)["models"]}
    assert found["qwen3.5-27b"]["tensor_parallel"] == 4
    assert found["qwen3.5-27b"]["requests"] >= 1


def test_without_a_card_only_the_embedded_engine_fits(dflash):
    listed = dflash.run("list", "--fits", "smollm2")
    assert listed.out.splitlines()[1].split()[:2] == ["smollm2-135m", "transformers"]
    assert "--gpu H100" in listed.err


def test_memory_by_context_and_load(dflash):
    shown = dflash.run("show", "qwen3-8b", "--memory", "--gpu", "H100", "--engine", "vllm")
    assert shown.code == 0
    assert "weights 15.3, draft 1.9" in shown.out
    longest = shown.out.splitlines()[-1].split()
    assert longest[0] == "40960"
    assert longest[-1].startswith("(")
    assert all(len(line) <= 80 for line in shown.out.splitlines())
    asked = json.loads(dflash.run("show", "qwen3-8b", "--memory", "--gpu", "H100", "--json").out)
    assert len(asked["cells"]) == len(asked["contexts"])


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("show", "qwen3-8b", "--memory"), "--gpu H100"),
        (("show", "muse-spark", "--memory", "--gpu", "B200:8"), "dflash show muse-spark"),
        (
            ("show", "qwen3-8b", "--memory", "--gpu", "RTX-3090", "-e", "transformers"),
            "--engine vllm",
        ),
    ],
)
def test_memory_that_cannot_be_estimated_is_one_line(dflash, words, hint):
    shown = dflash.run(*words)
    assert shown.code in (2, 4)
    assert hint in shown.err
    assert len(shown.err.split("\n\n")) == 2


def test_what_does_not_fit_says_what_would(dflash):
    planned = dflash.run(
        "plan", "qwen3-8b", "-e", "vllm", "--gpu", "RTX-4090", "--context", "40960"
    )
    assert planned.code == 4
    assert "does not fit 1 x RTX-4090" in planned.err
    assert "--context 16384" in planned.err


def test_a_minimum_has_the_unit_it_was_published_in_everywhere(dflash):
    refused = dflash.run("plan", "minimax-m2.5", "-e", "vllm", "--gpu", "A100-40:4")
    assert refused.code == 4
    for said in (refused.err, dflash.run("show", "minimax-m2.5").out):
        assert "276 GB in all" in said
        assert "276 GiB" not in said


def test_plan_writes_what_others_run_and_says_what_to_type_next(dflash):
    plan = ("plan", "gpt-oss-20b", "-e", "vllm", "--gpu", "H100", "--format")
    for form, next_command in (
        ("docker", "docker logs"), ("compose", "docker compose"), ("k8s", "kubectl apply"),
        ("systemd", "systemctl --user"), ("slurm", "sbatch"), ("vllm-config", "vllm serve --config"),
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


def test_a_recipe_holds_for_every_release_from_its_first_on(dflash):
    made = dflash.run("plan", "gpt-oss-20b", "-e", "vllm", "--gpu", "H100", "-f", "vllm-recipe")
    assert made.code == 0, made.err
    assert "min_vllm_version: 0.26.0" in made.out
    assert "VLLM_USE_V2_MODEL_RUNNER: '1'" in made.out  # 0.26 to 0.29 end without it
