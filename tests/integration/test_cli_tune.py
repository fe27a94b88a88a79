"""`dflash tune` with the fake engines, as a process: the race, the recipe, interruptions."""

from __future__ import annotations

import json
import shlex
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fakes import install_fakes
from tests.fakes.nvml import nvml_path
from tests.fakes.plans import free_port
from tests.integration.conftest import ROOT, CommandLine, Finished
from tests.integration.test_cli_serve import gone, wait_for

CROWDED = {
    "FAKE_ENGINE_PHASE_DELAY": "0.001", "FAKE_ENGINE_CHUNK_DELAY": "0.003",
    "FAKE_ENGINE_ACCEPTANCE": "8", "FAKE_ENGINE_SLOW_DRAFTS": "5:3:0.2",
}  # fmt: skip
"""Blocks of 8 are the best alone, and far slower than plain decoding with three in flight: each
differs from the next by far more than a busy machine does."""


def with_card(dflash: CommandLine, home: Path) -> CommandLine:
    dflash.module = "tests.fakes.hasty"
    dflash.env["PYTHONPATH"] = f"{nvml_path(home, 'h100')}:{ROOT}"
    return dflash


@pytest.fixture
def card(dflash: CommandLine, tmp_path: Path) -> CommandLine:
    return with_card(dflash, tmp_path)


@pytest.fixture(scope="module")
def raced(tmp_path_factory: pytest.TempPathFactory) -> tuple[Finished, Path]:
    """One race without a schedule, and the folder of its report and its recipe."""
    home = tmp_path_factory.mktemp("raced")
    install_fakes(home / "bin")
    card = with_card(CommandLine(home / "bin", home), home)
    options = ("--no-schedule", "--json", "--repeats", "1")
    return card.run(*words(free_port(), home, *options), env=CROWDED), home


@pytest.fixture
def told(raced: tuple[Finished, Path], tune: Any, tmp_path: Path) -> Any:
    """Goes on with that race, of which nothing is left to measure: it is told, and starts nothing."""
    shutil.copy(raced[1] / "tune.json", tmp_path)

    def run(*options: str) -> Finished:
        resume = ("--resume", str(tmp_path / "tune.json"))
        ended = tune("--no-schedule", "--repeats", "1", *resume, *options)
        assert "starting the server" not in ended.err
        return ended

    return run


def words(port: int, tmp_path: Path, *options: str, engine: str = "vllm") -> list[str]:
    output = [] if "--resume" in options else ["--output", str(tmp_path / "tune.json")]
    return [
        "tune", "gpt-oss-20b", "--engine", engine, "--port", str(port), "--concurrency", "1,4",
        "--num-prompts", "4", "--repeats", "2", "--max-tokens", "24", "--block-sizes", "8,2",
        *output, *options,
    ]  # fmt: skip


@pytest.fixture
def tune(card: Any, port: int, tmp_path: Path) -> Any:
    def run(*options: str, env: dict[str, str] | None = None, engine: str = "vllm") -> Finished:
        return card.run(*words(port, tmp_path, *options, engine=engine), env=CROWDED | (env or {}))

    return run


def report(tmp_path: Path) -> dict[str, Any]:
    return dict(json.loads((tmp_path / "tune.json").read_text()))


def written(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "config").rglob("*.yaml"))


def speculation(dflash: Any, *options: str) -> dict[str, Any]:
    planned = dflash.run("plan", "gpt-oss-20b", "--engine", "vllm", "--format", "json", *options)
    argv = json.loads(planned.out)["argv"]
    return dict(json.loads(argv[argv.index("--speculative-config") + 1]))


def test_a_schedule_is_found_confirmed_written_and_planned(tune, card, tmp_path):
    pids = tmp_path / "pids"
    ended = tune("--max-tokens", "64", env={"FAKE_ENGINE_PIDS": str(pids)})
    assert ended.code == 0, ended.err
    lines = ended.out.splitlines()
    assert lines[0].split("  ")[0] == "LOAD"
    assert lines[0].split()[-5:] == ["BLOCK", "8", "BLOCK", "2", "SCHEDULE"]
    assert lines[1].split()[0] == "1"  # as `dflash bench` writes it
    assert "7 up to 2 requests, 1 up to 4" in ended.out
    assert max(map(len, lines[:3])) <= 80
    (file,) = written(tmp_path)
    assert str(file) in ended.out
    made = yaml.safe_load(file.read_text())
    (recipe,) = made["recipes"]
    assert made["extends"] == "openai/gpt-oss-20b"
    assert (recipe["block_size"], recipe["schedule"]) == (8, [[1, 2, 7], [3, 4, 1]])
    assert recipe["when"]["cards"] == ["H100"]
    assert recipe["when"]["version"] == ">=0.33.0"
    assert made["evidence"][0]["outcome"] == "verified"
    assert "build" not in made["evidence"][0]
    arms = [arm["name"] for arm in report(tmp_path)["arms"]]
    assert arms == ["plain", "dflash-8", "dflash-2", "dflash-schedule"]
    assert len(pids.read_text().split()) == 4  # a start an arm
    assert gone([int(line) for line in pids.read_text().split()])
    assert card.run("registry", "check").code == 0
    said = speculation(card, "--gpu", "H100")
    assert said["num_speculative_tokens_per_batch_size"] == [[1, 2, 7], [3, 4, 1]]
    shown = card.run("show", "gpt-oss-20b")
    assert "draft tokens 7 up to 2 requests, 1 up to 4" in " ".join(shown.out.split())


def test_without_a_schedule_it_is_the_block_that_is_slower_nowhere(raced):
    ended, home = raced
    assert ended.code == 0, ended.err
    document = json.loads(ended.out)
    choice = document["choice"]
    assert (choice["block_size"], choice["schedule"], choice["up_to"]) == (2, [], None)
    assert document["starts"] == 3
    assert document["entry"]["recipes"][0]["block_size"] == 2
    assert document["file"] == str(written(home)[0])


def test_the_entrys_own_block_stays_where_another_is_as_fast(tune, tmp_path):
    options = ("--no-schedule", "--repeats", "1", "--concurrency", "1")
    assert tune(*options, "--print").code == 0
    document = report(tmp_path)
    speeds = {"plain": 100, "dflash-8": 300, "dflash-2": 303}
    for cell in document["cells"]:
        cell["runs"][0]["seconds"] = cell["runs"][0]["output_tokens"] / speeds[cell["arm"]]
    file = tmp_path / "tune.json"
    file.write_text(json.dumps(document))
    ended = tune(*options, "--resume", str(file))
    assert ended.code == 0, ended.err
    said = "blocks of 2 are faster by less than the spread (3.03x at 1 in flight)"
    assert said in " ".join(ended.out.split())
    (recipe,) = yaml.safe_load(written(tmp_path)[0].read_text())["recipes"]
    assert recipe["block_size"] == 8
    assert "3.00x at 1 in flight" in recipe["why"]
    assert said in recipe["why"]


def test_what_is_printed_is_not_written(told, tmp_path):
    ended = told("--print")
    assert ended.code == 0, ended.err
    assert "block_size: 2" in ended.out
    assert "schedule" not in ended.out
    assert written(tmp_path) == []


def test_a_registry_that_is_not_there_yet_is_made_for_the_recipe(told, card, tmp_path):
    folder = tmp_path / "mine" / "registry"
    ended = told("--registry", str(folder))
    assert ended.code == 0, ended.err
    assert written(tmp_path) == []
    (file,) = folder.rglob("*.yaml")
    assert str(file) in ended.out
    assert f"--registry {folder}" in ended.err
    assert card.run("registry", "check", "--registry", str(folder)).code == 0


def test_a_registry_that_is_a_file_is_said_before_anything_starts(tune, tmp_path):
    (tmp_path / "mine").touch()
    ended = tune("--registry", str(tmp_path / "mine"))
    assert (ended.code, "starting the server" in ended.err) == (3, False)
    assert "it is a file, and a registry is a folder" in ended.err


def test_a_block_that_loses_under_load_is_for_low_load(tune, tmp_path):
    ended = tune("--block-sizes", "8", "--repeats", "1", env={"FAKE_ENGINE_VERSION": "0.30.0"})
    assert ended.code == 0, ended.err
    assert "leave DFlash off above 1 in flight" in " ".join(ended.out.split())
    recipe = yaml.safe_load(written(tmp_path)[0].read_text())["recipes"][0]
    assert recipe["when"]["concurrency_at_most"] == 1


def test_from_0_33_on_drafting_may_end_under_load(tune, tmp_path):
    # without drafts under load it is as fast as plain decoding: steps that hide a busy machine
    slow = {"FAKE_ENGINE_CHUNK_DELAY": "0.015", "FAKE_ENGINE_SLOW_DRAFTS": "5:3:0.4"}
    ended = tune("--block-sizes", "8", "--repeats", "1", env=slow)
    assert ended.code == 0, ended.err
    recipe = yaml.safe_load(written(tmp_path)[0].read_text())["recipes"][0]
    assert recipe["schedule"] == [[1, 2, 7], [3, 4, 0]]
    assert "concurrency_at_most" not in recipe["when"]


def test_drafts_that_never_pay_write_nothing(tune, tmp_path):
    options = ("--repeats", "1", "--max-tokens", "8")
    ended = tune(*options, env={"FAKE_ENGINE_SLOW_DRAFTS": "1:0:0.1"})
    assert ended.code == 0, ended.err
    assert "leave DFlash off here" in ended.out
    assert written(tmp_path) == []


def test_a_block_that_loses_everywhere_gets_no_repeats(tune, tmp_path):
    ended = tune(
        "--block-sizes", "8,3,2", "--max-tokens", "16",
        env={"FAKE_ENGINE_SLOW_DRAFTS": "9:1:0", "FAKE_ENGINE_CHUNK_DELAY": "0.02"},
    )  # fmt: skip
    assert ended.code == 0, ended.err
    runs = {cell["arm"]: len(cell["runs"]) for cell in report(tmp_path)["cells"]}
    assert runs == {"plain": 2, "dflash-8": 2, "dflash-3": 1}  # and blocks of 2 no start
    assert "shorter ones are left out" in " ".join(ended.err.split())
    assert yaml.safe_load(written(tmp_path)[0].read_text())["recipes"][0]["block_size"] == 8


def test_made_up_acceptance_is_engine_cost_in_every_word(tune, card, tmp_path):
    words = ("--synthetic-acceptance", "published", "--load-format", "dummy")
    ended = tune(*words, "--max-tokens", "64", "--block-sizes", "8")
    assert ended.code == 0, ended.err
    assert ended.out.startswith("SYNTHETIC")
    assert "SYNTHETIC, engine cost only: " in ended.out
    made = yaml.safe_load(written(tmp_path)[0].read_text())
    assert made["recipes"][0]["why"].startswith("SYNTHETIC")
    assert made["evidence"][0]["build"].startswith("synthetic acceptance")
    assert all("acceptance_length" not in row for row in made["evidence"][0]["results"])
    assert '"synthetic_acceptance_rates"' in " ".join(report(tmp_path)["arms"][-1]["argv"])


def test_what_a_handful_of_tokens_chose_is_verified_by_nothing(told, tmp_path):
    ended = told()
    assert ended.code == 0, ended.err
    made = yaml.safe_load(written(tmp_path)[0].read_text())
    assert (len(made["recipes"]), "evidence" in made) == (1, False)
    assert "nothing verifies this recipe: the report has no figure" in ended.err
    assert "a figure of fewer than 500 is chance" in ended.err


def test_without_a_card_the_recipe_is_printed(dflash, port, tmp_path):
    once = ("--repeats", "1", "--no-schedule", "--block-sizes", "2", "--concurrency", "1")
    ended = dflash.run(*words(port, tmp_path, *once), env=CROWDED)
    assert ended.code == 0, ended.err
    assert "no recipe is written: the report does not say which card" in " ".join(ended.err.split())
    assert "extends: openai/gpt-oss-20b" in ended.out
    assert written(tmp_path) == []


def test_a_dry_run_refuses_what_no_server_could_be_told(card):
    words = ("--engine", "sglang", "--engine-version", "0.5.16", "--dry-run")
    assert card.run("tune", "gpt-oss-20b", *words).code == 0
    ended = card.run("tune", "gpt-oss-20b", *words, "--synthetic-acceptance", "published")
    assert ended.code == 4
    assert "makes no acceptance up for DFlash" in ended.err
    assert "hint: --engine-version 0.5.17" in ended.err


def test_a_dry_run_counts_starts_and_starts_nothing(card, tmp_path):
    ended = card.run("tune", "gpt-oss-20b", "--engine", "vllm", "--dry-run")
    assert ended.code == 0, ended.err
    assert "3 to 4 starts of the engine" in " ".join(ended.out.split())
    document = json.loads(
        card.run("tune", "qwen3-8b", "--engine", "vllm", "--engine-version", "0.23.0", "--dry-run",
                 "--json").out
    )  # fmt: skip
    assert (document["blocks"], document["starts"]) == ([16, 8, 4], 4)
    assert not list(tmp_path.glob("*.json"))


def test_ctrl_c_loses_nothing_and_resume_goes_on(card, port, tmp_path):
    pids = tmp_path / "pids"
    env = CROWDED | {"FAKE_ENGINE_PIDS": str(pids)}
    process = card.start(*words(port, tmp_path), env=env)
    wait_for("dflash-8: starting", process)
    wait_for("1/", process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert f"--resume {tmp_path / 'tune.json'}" in err
    assert gone([int(line) for line in pids.read_text().split()])
    before = report(tmp_path)
    assert not before["complete"]
    assert written(tmp_path) == []
    ended = card.run(*words(port, tmp_path, "--resume", str(tmp_path / "tune.json")), env=CROWDED)
    assert ended.code == 0, ended.err
    assert "plain: starting" not in ended.err
    after = report(tmp_path)
    assert after["complete"]
    assert any("DFlash pays" in line for line in after["verdict"])
    assert after["cells"][0]["runs"] == before["cells"][0]["runs"]
    assert len(written(tmp_path)) == 1


def test_an_arm_that_fails_does_not_end_the_others(tune, tmp_path):
    ended = tune("--block-sizes", "8,4", "--repeats", "1", env={"FAKE_ENGINE_CRASH_BLOCK": "8"})
    assert ended.code == 0, ended.err
    assert "dflash-8 is left out: vLLM ended with exit code 1 before it was ready: " in ended.err
    assert "CUDA out of memory" in ended.err
    assert yaml.safe_load(written(tmp_path)[0].read_text())["recipes"][0]["block_size"] == 4


def test_servers_that_answer_too_little_are_no_reason_to_leave_dflash_off(tune, tmp_path):
    ended = tune("--concurrency", "1", env={"FAKE_ENGINE_FAIL_EVERY": "2"})
    assert ended.code == 7
    assert "plain decoding answered too few requests at every load" in ended.err
    assert "the fake fails every 2. request" in ended.err
    assert "leave DFlash off" not in ended.out + ended.err
    assert ended.err.count(": starting the server") == 1


def test_sglang_is_tuned_to_one_block(tune, tmp_path):
    ended = tune("--repeats", "1", engine="sglang")
    assert ended.code == 0, ended.err
    recipe = yaml.safe_load(written(tmp_path)[0].read_text())["recipes"][0]
    assert (recipe["block_size"], "schedule" in recipe) == (2, False)


def test_slips_are_one_line(tune, tmp_path):
    (tmp_path / "tune.json").write_text("{}")
    for options, code, said in (
        (("--block-sizes", "64"), 2, "outside 2..8"),
        ((), 2, "is there already"),
        (("--concurrency", "many"), 2, "is no number"),
    ):
        ended = tune(
            *options, *(() if said != "outside 2..8" else ("-o", str(tmp_path / "b.json")))
        )
        assert ended.code == code
        assert said in ended.err
        assert "Traceback" not in ended.err


@pytest.mark.parametrize(("name", "hint"), [("page.html", "--output page.json"), ("-", "--json")])
def test_what_its_report_cannot_be_is_said_before_anything_starts(tune, name, hint):
    ended = tune("--output", name)
    assert ended.code == 2
    assert hint in ended.err
    assert "starting the server" not in ended.err


def test_a_recipe_that_finds_no_place_is_told_and_written_by_the_command_that_is_named(
    tune, tmp_path
):
    options = ("--no-schedule", "--repeats", "1", "--block-sizes", "2", "--concurrency", "1")
    slower = {"FAKE_ENGINE_CHUNK_DELAY": "0.02"}  # two tokens a step are to be faster for sure
    # a folder in the way of the recipe's is found when it is written, and not before
    (tmp_path / "config" / "dflash" / "registry" / "models").mkdir(parents=True)
    (tmp_path / "config" / "dflash" / "registry" / "models" / "openai").touch()
    ended = tune(*options, env=slower)
    assert ended.code == 3
    assert "the recipe is not written: " in ended.err
    assert "extends: openai/gpt-oss-20b" in ended.out
    resume = ("--resume", str(tmp_path / "tune.json"))
    assert "hint: dflash tune gpt-oss-20b --engine vllm" in ended.err
    assert f"{shlex.join(resume)} writes it, once it can be" in ended.err
    (tmp_path / "config" / "dflash" / "registry" / "models" / "openai").unlink()
    for _ in range(2):  # once more: it is there, and the same
        ended = tune(*options, *resume)
        assert ended.code == 0, ended.err
        assert str(written(tmp_path)[0]) in ended.out
        assert "starting the server" not in ended.err


def test_a_place_where_no_recipe_can_be_is_told_before_anything_starts(tune, tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "dflash").touch()
    ended = tune()
    assert (ended.code, "starting the server" in ended.err) == (3, False)
    assert "config/dflash: it is no folder" in ended.err
    assert "hint: --registry FOLDER, or --print" in ended.err


def test_prompts_that_do_not_fit_are_told_by_a_dry_run_too(tune):
    ended = tune("--dry-run", "--context", "1024", "--workload", "tokens:1010")
    assert ended.code == 4, ended.err
    assert "prompts of tokens-1010 do not fit a context of 1024" in ended.err
