"""`dflash registry evidence add`: a report, then `show` and `check` on what became of it."""

from __future__ import annotations

import json

import msgspec

from tests.fakes.reports import report


def saved(tmp_path, **changes):
    path = tmp_path / "report.json"
    path.write_bytes(msgspec.json.encode(report(**changes)))
    return str(path)


def test_a_report_makes_a_recipe_verified(dflash, tmp_path):
    file = saved(tmp_path)
    before = json.loads(dflash.run("show", "qwen3-8b", "--json").out)
    assert before["served"]["vllm"]["status"] == "untested"
    added = dflash.run("registry", "evidence", "add", file)
    assert (added.code, added.err) == (0, "next: dflash show qwen3-8b\n")
    assert added.out.startswith(str(tmp_path))
    after = json.loads(dflash.run("show", "qwen3-8b", "--json").out)
    assert after["served"]["vllm"]["status"] == "verified"
    text = dflash.run("show", "qwen3-8b").out
    assert "verified: vllm 0.26.0, H100, 2026-11-28, weights bf16, thinking off" in text
    assert dflash.run("registry", "check").code == 0


def test_twice_is_once(dflash, tmp_path):
    file = saved(tmp_path)
    dflash.run("registry", "evidence", "add", file)
    again = dflash.run("registry", "evidence", "add", file)
    assert (again.code, again.out) == (2, "")
    assert "is evidence already" in again.err
    assert "hint: dflash show qwen3-8b" in again.err


def test_a_benchmark_that_went_on_takes_the_place_of_what_it_was(dflash, tmp_path):
    half = {"plain": {1: (100, 101)}, "dflash-16": {1: (400, 404)}}
    first = dflash.run("registry", "evidence", "add", saved(tmp_path, speeds=half, complete=False))
    whole = dflash.run("registry", "evidence", "add", saved(tmp_path))
    assert (whole.code, whole.out) == (0, first.out)
    assert "before it went on is replaced" in whole.err
    shown = dflash.run("show", "qwen3-8b").out
    assert shown.count("verified: vllm 0.26.0, H100") == 1
    # and what cannot stand there leaves what was
    wide = {"plain": {1: (5,)}, "dflash-32": {1: (9,)}}
    worse = saved(tmp_path, speeds=wide, lengths={"dflash-32": 3.0})
    assert dflash.run("registry", "evidence", "add", worse).code == 3
    assert dflash.run("show", "qwen3-8b").out == shown


def test_two_reports_stand_side_by_side(dflash, tmp_path):
    dflash.run("registry", "evidence", "add", saved(tmp_path))
    dflash.run("registry", "evidence", "add", saved(tmp_path, seed=1))
    shown = dflash.run("show", "qwen3-8b").out
    assert shown.count("verified: vllm 0.26.0, H100") == 2


def test_made_up_acceptance_is_shown_as_engine_cost(dflash, tmp_path):
    added = dflash.run("registry", "evidence", "add", saved(tmp_path, synthetic=6.5))
    assert added.code == 0
    assert "acceptance was made up" in added.err
    shown = dflash.run("show", "qwen3-8b")
    assert "engine cost only, synthetic acceptance: 6.5 at block 16" in " ".join(shown.out.split())
    after = json.loads(dflash.run("show", "qwen3-8b", "--json").out)
    assert after["served"]["vllm"]["status"] == "untested"


def test_print_writes_nothing_and_a_folder_is_taken(dflash, tmp_path):
    file = saved(tmp_path)
    printed = dflash.run("registry", "evidence", "add", file, "--print")
    assert "extends: Qwen/Qwen3-8B" in printed.out
    folder = tmp_path / "mine"
    added = dflash.run("registry", "evidence", "add", file, "--registry", str(folder), "--json")
    document = json.loads(added.out)
    assert document["file"].startswith(str(folder / "models" / "Qwen"))
    assert f"next: dflash show --registry {folder} qwen3-8b" in added.err
    assert dflash.run("registry", "check", str(folder)).code == 0


def test_what_is_refused_leaves_nothing_behind(dflash, tmp_path):
    for changes, code in (({"complete": False}, 2), ({"model": "no/such"}, 3)):
        refused = dflash.run("registry", "evidence", "add", saved(tmp_path, **changes))
        assert refused.code == code
        assert "hint:" in refused.err
    # a block above the draft's is found when the entry is proved
    wide = {"plain": {1: (5,)}, "dflash-32": {1: (9,)}}
    refused = dflash.run(
        "registry", "evidence", "add", saved(tmp_path, speeds=wide, lengths={"dflash-32": 3.0})
    )
    assert refused.code == 3
    assert "a block of 32 is above the draft's 16" in refused.err
    assert not list(tmp_path.rglob("*.yaml"))


def test_of_a_report_that_was_interrupted_the_next_command_goes_on_with_it(dflash, tmp_path):
    file = saved(tmp_path, complete=False, command="dflash bench qwen3-8b -o r.json -- --seed 1")
    refused = dflash.run("registry", "evidence", "add", file)
    assert f"hint: dflash bench qwen3-8b --resume {file} -- --seed 1" in refused.err


def test_a_command_that_was_written_by_hand_is_no_bug(dflash, tmp_path):
    file = saved(tmp_path, complete=False, command="dflash bench qwen3-8b --workload 'own")
    refused = dflash.run("registry", "evidence", "add", file)
    assert refused.code == 2
    assert "hint: dflash bench qwen3-8b" in refused.err
    assert "Traceback" not in refused.err
