"""benchmarks/held_out.py: equal texts, near ties and bugs are told apart, and the last fail it."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest
from safetensors.torch import save_file

from dflash_deploy.measure.lossless import Divergence
from dflash_deploy.speculative.load import load_model
from dflash_deploy.train.draft import fresh
from dflash_deploy.train.save import config_json
from tests.unit.train import small

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "held_out.py"


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    target, draft = small.saved_target(tmp_path_factory.mktemp("t")), tmp_path_factory.mktemp("d")
    model = load_model(target, dtype="float32")
    plan = small.recipe()
    config = small.config(model, plan)
    (draft / "config.json").write_text(json.dumps(config_json(model.config, plan, small.MASK)))
    save_file(fresh(config, small.frozen(model).final_norm(), seed=1), draft / "model.safetensors")
    return str(target), str(draft)


@pytest.fixture
def measured(pair, tmp_path, monkeypatch):
    """The exit code and the document.

    `heard` makes of a drafted answer what the benchmark sees, `told` is where they are said to part.
    """

    def run(heard=lambda tokens: tokens, told=..., more=()):
        monkeypatch.syspath_prepend(SCRIPT.parent)
        out = tmp_path / "out.json"
        monkeypatch.setattr(sys, "argv", [
            str(SCRIPT), *pair, "--tokens", "8", "--limit", "2", "--threads", "1",
            "--out", str(out), *more,
        ])  # fmt: skip
        main = runpy.run_path(str(SCRIPT))["main"]
        ran = main.__globals__["run"]

        def altered(*given, speculate):
            tokens, *rest = ran(*given, speculate=speculate)
            return (heard(tokens) if speculate else tokens, *rest)

        main.__globals__["run"] = altered
        if told is not ...:
            main.__globals__["parting"] = lambda *_: told
        code = main()
        return code, json.loads(out.read_text())

    return run


def test_the_same_texts_pass(measured):
    code, document = measured()
    assert code == 0
    assert (document["all"]["equal"], document["all"]["near_ties"]) == ("2/2", 0)
    assert document["partings"] == []


def other(tokens):
    return [*tokens[:3], (tokens[3] + 1) % 200, *tokens[4:]]


def test_another_text_fails_and_its_cost_is_told(measured):
    code, document = measured(other)
    assert code == 1
    assert (document["all"]["equal"], document["all"]["near_ties"]) == ("0/2", 0)
    parting = document["partings"][0]["parting"]
    assert parting["position"] == 3
    assert parting["regret"] > 0.001


def test_a_near_tie_is_counted_apart_and_passes(measured):
    code, document = measured(other, Divergence(3, "1", "2", 0.0004))
    assert code == 0
    assert (document["all"]["equal"], document["all"]["near_ties"]) == ("0/2", 2)


def test_plain_decoding_that_does_not_repeat_itself_proves_nothing(measured):
    code, document = measured(lambda tokens: [*tokens[:-1], 0], told=None)
    assert code == 1
    assert (document["all"]["equal"], document["all"]["near_ties"]) == ("0/2", 0)


def test_another_run_goes_on_behind_the_lines_of_the_first(measured, tmp_path):
    lines = tmp_path / "lines.jsonl"
    code, whole = measured(other, more=("--lines", str(lines)))
    assert code == 1
    of, first, second = lines.read_bytes().splitlines(keepends=True)
    lines.write_bytes(of + first)
    code, document = measured(more=("--lines", str(lines)))  # the second prompt alone is measured
    assert code == 1
    assert document["all"]["equal"] == "1/2"
    assert document["partings"] == whole["partings"][:1]
    *before, last = lines.read_bytes().splitlines(keepends=True)
    assert before == [of, first]
    assert json.loads(last)["number"] == json.loads(second)["number"]
    _, fewer = measured(more=("--lines", str(lines), "--limit", "1"))
    assert fewer["all"]["equal"] == "0/1"


def test_lines_of_other_options_are_refused(measured, tmp_path):
    lines = tmp_path / "lines.jsonl"
    measured(more=("--lines", str(lines)))
    before = lines.read_bytes()
    with pytest.raises(SystemExit, match="is of another run"):
        measured(more=("--lines", str(lines), "--tokens", "9"))
    assert lines.read_bytes() == before
