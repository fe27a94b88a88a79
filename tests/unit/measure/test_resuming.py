"""Taking up a report: what may stand beside it, and what to type where nothing may."""

from __future__ import annotations

import pytest

from dflash_deploy.errors import UsageError
from dflash_deploy.hardware import Hardware
from dflash_deploy.measure.report import Arm
from dflash_deploy.measure.results import with_run
from dflash_deploy.measure.resuming import anew, resumed
from tests.unit.measure.test_results import MACHINE, PLAIN, REPORT, RUN, TURN, W, change


def test_resuming_keeps_the_cells_and_the_date(tmp_path):
    old = change(with_run(REPORT, TURN, RUN), date="2025-01-01T00:00:00Z")
    dflash = Arm(name="dflash-16", method="dflash")
    new = resumed(old, change(REPORT, arms=(PLAIN, dflash)), tmp_path)
    assert (new.cells, new.date) == (old.cells, old.date)
    assert [arm.name for arm in new.arms] == ["plain", "dflash-16"]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"model": "other"}, "its model"),
        ({"draft": None}, "its draft is d, not an unknown one"),
        ({"seed": 1}, "its seed"),
        ({"version": "0.26.0"}, "its version"),
        ({"machine": change(MACHINE, cpu="another")}, "another machine"),
        ({"machine": change(MACHINE, hardware=Hardware())}, "another machine"),
        ({"workloads": (change(W, sha256="x"),)}, "its prompts of math"),
        ({"workloads": (change(W, max_tokens=9),)}, "another length"),
        ({"arms": (change(PLAIN, argv=("vllm",)),)}, "started otherwise"),
    ],
)
def test_what_is_not_of_one_kind_is_not_mixed(tmp_path, values, said):
    with pytest.raises(UsageError, match=said):
        resumed(REPORT, change(REPORT, **values), tmp_path / "bench.json")


def test_another_port_is_the_same_benchmark(tmp_path):
    def on(port: str, *words: str):
        arm = change(PLAIN, argv=("vllm", "serve", "m", "--port", port, *words))
        return change(REPORT, arms=(arm,))

    assert resumed(on("8000"), on("8001"), tmp_path / "bench.json")
    with pytest.raises(UsageError, match="started otherwise"):
        resumed(on("8000"), on("8000", "--seed", "8001"), tmp_path / "bench.json")


def test_other_weights_are_another_benchmark(tmp_path):
    ran = change(REPORT, weights="q4_1")
    with pytest.raises(UsageError, match="its weights are q4_1, not bf16"):
        resumed(ran, change(REPORT, weights="bf16"), tmp_path / "bench.json")
    with pytest.raises(UsageError, match="its weights are q4_1, not unknown ones"):
        resumed(ran, REPORT, tmp_path / "bench.json")
    assert resumed(REPORT, ran, tmp_path / "bench.json").weights == "q4_1"


def instead(old, new, tmp_path):
    with pytest.raises(UsageError) as caught:
        resumed(old, new, tmp_path / "b.json")
    return caught.value.hint.replace(f"{tmp_path}/", "")


def test_with_other_options_the_next_command_has_those_it_was_begun_with(tmp_path):
    old = change(REPORT, command="dflash bench m --seed 0 --output b.json -- --swap 1")
    new = change(REPORT, seed=1, command="dflash bench m --seed 1 --resume b.json")
    again = "dflash bench m --seed 0 --resume b.json -- --swap 1"
    assert instead(old, new, tmp_path) == again


@pytest.mark.parametrize("command", ["dflash bench m --resume old.json", "dflash bench 'm"])
def test_on_another_machine_the_next_command_begins_anew(tmp_path, command):
    old = change(REPORT, command=command)
    new = change(
        REPORT, machine=change(MACHINE, cpu="x"), command="dflash bench m --resume=b.json -o b.json"
    )
    assert instead(old, new, tmp_path) == "dflash bench m"


def test_what_follows_the_dashes_is_the_engines_own():
    words = ["dflash", "bench", "m", "--resume", "a", "--output=b", "--", "--resume", "c"]
    assert anew(words) == "dflash bench m -- --resume c"


def test_on_another_machine_no_options_go_on_with_it(tmp_path):
    old = change(REPORT, command="dflash bench m --seed 0", machine=change(MACHINE, cores=2))
    new = change(REPORT, command="dflash bench m --repeats 2 --resume b.json")
    assert instead(old, new, tmp_path) == "dflash bench m --repeats 2"


def test_another_workload_stands_beside_the_first(tmp_path):
    old = with_run(REPORT, TURN, RUN)
    other = change(W, name="chat")
    new = resumed(old, change(REPORT, workloads=(other,)), tmp_path)
    assert new.workloads == (other, W)
