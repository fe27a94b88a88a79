"""One plan in every form: the same argv, the same secrets unsaid, the reviewed text."""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec
import pytest

from dflash_deploy.cli.plan import Format
from dflash_deploy.errors import Unsupported
from dflash_deploy.render.exports import EXPORTS, OVER_NODES, WATCHING, export
from tests.unit.render.exported import (
    ARGV,
    PAIRS,
    REGISTRY,
    USER,
    called,
    commands,
    config_argv,
    forms,
    odd,
    planned,
    text,
    with_key,
)  # fmt: skip

GOLDEN = Path(__file__).parents[2] / "golden" / "exports"
PLANS = {name: planned(*pair) for name, pair in PAIRS.items()}
ODD = {"odd": odd()}
OVER_TWO = {
    "kimi-k2.5-two-nodes": planned("kimi-k2.5", "vllm", "H100:8", nodes=2, trust_remote_code=True)
}
IN_CONTAINERS = ("docker", "compose", "k8s", "kserve")


def same_command(argv, form):
    """What `identical` means: word for word the plan's, in the same order. There is one exception:
    in a container the word after --host is 0.0.0.0, for the published port decides who gets in."""
    at = argv.index("--host") + 1
    host = "0.0.0.0" if form in IN_CONTAINERS else argv[at]
    return [*argv[:at], host, *argv[at + 1 :]]


@pytest.mark.parametrize(
    ("form", "name"),
    [(form, name) for name, plan in (PLANS | ODD).items() for form in commands(plan)],
)
def test_argv_is_identical_in_every_target(form, name, tmp_path):
    plan = (PLANS | ODD)[name]
    assert ARGV[form](text(form, plan), tmp_path) == same_command(plan.argv, form)


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_an_engines_file_says_the_same_words(plan):
    """All but the program's own two, which whoever names the file has typed."""
    assert config_argv(text(f"{plan.engine}-config", plan)) == list(plan.argv[2:])


def test_every_export_is_a_format_of_plan():
    others = {"command", "json", "vllm-recipe"}
    assert {form.value for form in Format} - others == {*EXPORTS, *WATCHING}


@pytest.mark.parametrize("name", [*PLANS, *OVER_TWO])
def test_the_texts_are_the_reviewed_ones(name, request):
    plan = (PLANS | OVER_TWO)[name]
    for form in OVER_NODES if plan.nodes else forms(plan):
        path, written = GOLDEN / name / f"{form}.txt", text(form, plan) + "\n"
        if request.config.getoption("--update"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(written)
        assert path.read_text() == written


@pytest.mark.parametrize("form", ARGV)
def test_secrets_are_names(form, monkeypatch):
    for name in ("HF_TOKEN", "DFLASH_API_KEY", "VLLM_API_KEY"):
        monkeypatch.setenv(name, "s3cret")
    plan = with_key(PLANS["gpt-oss-20b-vllm"])
    exported = export(form, plan, REGISTRY.engines["vllm"], USER)
    assert "s3cret" not in exported.text + exported.use
    assert "VLLM_API_KEY" in exported.text + exported.use


@pytest.mark.parametrize(("form", "program"), [("docker", "docker"), ("slurm", "srun")])
def test_a_shell_stops_without_the_key(form, program, tmp_path):
    """An empty one would leave the server open to all."""
    script, given = text(form, with_key(PLANS["gpt-oss-20b-vllm"])), {"SLURM_CPUS_PER_TASK": "8"}
    assert called(script, program, tmp_path, DFLASH_API_KEY="x", **given)
    with pytest.raises(subprocess.CalledProcessError) as stopped:
        called(script, program, tmp_path, DFLASH_API_KEY="", **given)
    assert b"DFLASH_API_KEY" in stopped.value.stderr


@pytest.mark.parametrize("form", EXPORTS)
def test_a_key_that_only_a_file_can_hold_is_no_open_server(form):
    plan = planned("gemma-4-31b", "sglang", "A100:2", api_key_env="DFLASH_API_KEY")
    with pytest.raises(Unsupported) as refused:
        text(form, plan)
    assert "env -u DFLASH_API_KEY" in refused.value.hint


@pytest.mark.parametrize("form", EXPORTS)
def test_the_embedded_engine_runs_where_this_program_is(form):
    with pytest.raises(Unsupported) as refused:
        text(form, planned("smollm2-135m", "transformers", None))
    assert "dflash serve smollm2-135m" in refused.value.hint


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_file_is_for_its_own_engine(engine):
    other = "sglang" if engine == "vllm" else "vllm"
    with pytest.raises(Unsupported) as refused:
        text(f"{other}-config", planned("gpt-oss-20b", engine, "H100"))
    assert refused.value.hint == f"--engine {other}"


def test_what_sglang_cannot_read_from_a_file_is_refused():
    plan = PLANS["gemma-4-31b-sglang"]
    listed = msgspec.structs.replace(plan, argv=(*plan.argv, "--cuda-graph-bs-decode", "1", "2"))
    with pytest.raises(Unsupported, match="no list"):
        text("sglang-config", listed)


def test_a_release_that_cannot_read_an_option_from_its_file_is_refused():
    old = planned("gpt-oss-20b", "sglang", "H100", engine_version="0.5.19")
    with pytest.raises(Unsupported) as refused:
        text("sglang-config", old)
    assert "--engine-version 0.5.20" in refused.value.hint


def test_numbers_and_objects_stay_the_same_text():
    plan = PLANS["gpt-oss-20b-vllm"]
    words = ("--a", "007", "--b", "1e3", "--c", "true", "--d", '{"a":1}', "--e", "0.90", "--f")
    written = text("vllm-config", msgspec.structs.replace(plan, argv=(*plan.argv, *words)))
    assert config_argv(written) == [*plan.argv[2:], *words]
