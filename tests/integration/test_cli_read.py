"""`list`, `show`, `registry`: data on stdout, the rest on stderr, documented exit codes."""

from __future__ import annotations

import json

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


def test_an_overlay_in_the_users_folder_is_read(dflash, tmp_path):
    folder = tmp_path / "config" / "dflash" / "registry" / "models" / "me"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text(
        "extends: openai/gpt-oss-20b\naliases: [ours]\n"
        "recipes: [{name: ours, when: {engine: vllm}, block_size: 4, why: measured here, source: us}]\n"
    )
    plan = json.loads(dflash.run("plan", "ours", "-e", "vllm", "--json").out)
    assert (plan["model"], plan["block_size"]) == ("openai/gpt-oss-20b", 4)


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
    assert any(
        "your own registry" in problem["message"] for problem in json.loads(ended.out)["problems"]
    )


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


def test_a_minimum_has_the_unit_it_was_published_in_everywhere(dflash):
    refused = dflash.run("plan", "minimax-m2.5", "-e", "vllm", "--gpu", "A100-40:4")
    assert refused.code == 4
    for said in (refused.err, dflash.run("show", "minimax-m2.5").out):
        assert "276 GB in all" in said
        assert "276 GiB" not in said
