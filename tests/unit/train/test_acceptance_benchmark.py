"""benchmarks/acceptance.py: answers written together, and walked, are those of a decoder.

And same_prompts.py, which walks through the answers to the very requests of a report."""

from __future__ import annotations

import json
import runpy
import sys
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from safetensors.torch import load_file, save_file

from dflash_deploy.measure.results import read
from dflash_deploy.measure.workload import DEFAULT, load_workload
from dflash_deploy.speculative import SpeculativeDecoder, load_draft
from dflash_deploy.speculative.load import load_model
from dflash_deploy.speculative.types import Sampling
from dflash_deploy.train.draft import fresh
from dflash_deploy.train.save import config_json
from tests.unit.train import small

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "acceptance.py"
EVIDENCE = (
    Path(__file__).parents[3] / "docs/evidence/2026-11-30-h200-vllm-0.26.0-smollm2-135m-bench.json"
)
TOKENS, LIMIT, SAID, FEW = 30, 12, 8, 4
MARKS = {
    ("c=1", 0): "24903396",
    ("c=1", 1): "6a3ada63",
    ("c=8", 0): "705a8659",
    ("c=8", 1): "ec994443",
}
"""Of the first request of each run; with them come as many prompt tokens as the server counted."""
EMBEDDING = "model.embed_tokens.weight"
main = runpy.run_path(str(SCRIPT))["main"]


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    folder = small.saved_target(tmp_path_factory.mktemp("target"))
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(settings | {"max_position_embeddings": 8192}))
    # a few tokens are said, so that a draft that knows nothing is right now and then
    weights = load_file(folder / "model.safetensors")
    seldom = [
        token for token in range(SAID, len(weights[EMBEDDING])) if token != settings["eos_token_id"]
    ]
    weights[EMBEDDING][seldom] *= 0.05
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return folder


@pytest.fixture(scope="module")
def draft(target, tmp_path_factory):
    folder = tmp_path_factory.mktemp("draft")
    model = load_model(target, dtype="float32")
    plan = small.recipe()
    config = small.config(model, plan)
    (folder / "config.json").write_text(json.dumps(config_json(model.config, plan, small.MASK)))
    save_file(fresh(config, small.frozen(model).final_norm(), seed=1), folder / "model.safetensors")
    return folder


def steps_of(target, draft, prompts):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(target)
    decoder = SpeculativeDecoder(load_model(target, dtype="float32"), load_draft(draft))
    sampling = Sampling(TOKENS, stop_token_ids=frozenset({tokenizer.eos_token_id}))
    for prompt in prompts:
        ids = tokenizer.apply_chat_template(
            prompt.messages, add_generation_prompt=True, return_dict=False
        )
        yield list(decoder.generate(ids, sampling))


def decoded(target, draft, skip):
    """Cycles and tokens of each category, one prompt at a time."""
    every = load_workload(DEFAULT, limit=LIMIT, seed=0)[1]
    kept = [prompt for prompt in every if prompt.category != skip]
    found, tokens = defaultdict(list), 0
    for prompt, steps in zip(kept, steps_of(target, draft, kept), strict=True):
        tokens += sum(len(step.tokens) for step in steps)
        for name in (prompt.category, "all"):
            found[name] += [step.accepted for step in steps[1:]]
    return found, tokens


def test_together_is_as_one_at_a_time(target, draft, capsys, monkeypatch):
    # in 8 bits the draft now and then says something else
    monkeypatch.setattr("dflash_deploy.speculative.proposer.can_round", lambda _: False)
    main([str(target), str(draft), "--tokens", str(TOKENS), "--limit", str(LIMIT),
          "--skip", "long-context"])  # fmt: skip
    document = json.loads(capsys.readouterr().out)
    cycles, tokens = decoded(target, draft, "long-context")
    assert (document["device"], document["dtype"]) == ("cpu", "float32")
    assert len({*cycles["all"]}) > 1
    assert (document["prompts"], document["tokens"]) == (10, tokens)
    assert document["drafts"][str(draft)] == {
        name: {"cycles": len(kept), "acceptance_length": round(1 + sum(kept) / len(kept), 3)}
        for name, kept in cycles.items() if kept
    }  # fmt: skip


def test_a_gpu_that_is_not_there_is_one_line(target, draft, capsys, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(SystemExit) as ended:
        main([str(target), str(draft), "--device", "cuda"])
    assert ended.value.code == 2
    assert "torch sees no GPU here" in capsys.readouterr().err


def test_a_draft_that_is_not_there_is_told_before_the_answers(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main([str(tmp_path / "target"), str(tmp_path / "draft")])
    assert ended.value.code == 2
    assert f"{tmp_path / 'draft'} holds no draft" in capsys.readouterr().err


@pytest.fixture
def report(tmp_path):
    """One with a few short prompts, and short answers."""
    known = read(EVIDENCE)
    workload, _ = load_workload("chat", limit=FEW, seed=known.seed)
    cells = [
        msgspec.structs.replace(
            cell, workload="chat",
            runs=[msgspec.structs.replace(run, requests=FEW) for run in cell.runs],
        )
        for cell in known.cells if cell.load.concurrency == 1
    ]  # fmt: skip
    short = msgspec.structs.replace(
        known, cells=cells,
        workloads=[msgspec.structs.replace(workload, max_tokens=TOKENS)],
    )  # fmt: skip
    (tmp_path / "report.json").write_bytes(msgspec.json.encode(short))
    return tmp_path / "report.json"


@pytest.fixture
def again(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(SCRIPT.parent), *sys.path])
    return runpy.run_path(str(SCRIPT.with_name("same_prompts.py")))


def test_a_reports_own_prompts_are_decoded_again(target, draft, report, again, capsys, monkeypatch):
    monkeypatch.setattr("dflash_deploy.speculative.proposer.can_round", lambda _: False)
    again["main"]([str(report), str(target), str(draft), "--concurrency", "8"])
    assert not capsys.readouterr().out
    again["main"]([str(report), str(target), str(draft), "--concurrency", "1"])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["load"], line["repeat"]) for line in lines] == [("c=1", 0), ("c=1", 1)]
    known = read(report)
    cell = next(cell for cell in known.cells if cell.arm == "dflash-8")
    for line, run in zip(lines, cell.runs, strict=True):
        asked = again["sent"](known, known.workloads[0], cell, line["repeat"], run)
        steps = [*steps_of(target, draft, [SimpleNamespace(**body) for body in asked])]
        cycles = [step for answer in steps for step in answer[1:]]
        assert line["here"] == again["told"](
            sum(len(step.tokens) for answer in steps for step in answer), len(cycles),
            sum(step.accepted for step in cycles),
        )  # fmt: skip
        assert line["there"]["cycles"] == run.speculation.drafts


def test_each_run_of_a_report_has_the_marks_that_were_sent(again):
    known = read(EVIDENCE)
    for cell in known.cells:
        for repeat, run in enumerate(cell.runs):
            bodies = again["sent"](known, known.workloads[0], cell, repeat, run)
            first = bodies[0]["messages"][0]["content"]
            assert first.startswith(f"[{MARKS[str(cell.load), repeat]}]\n")
            assert {body["max_tokens"] for body in bodies} == {128}


def test_prompts_of_another_version_are_not_compared(again):
    known = read(EVIDENCE)
    changed = msgspec.structs.replace(known.workloads[0], sha256="0" * 64)
    with pytest.raises(SystemExit, match="mixed is another than the report's"):
        again["sent"](known, changed, known.cells[0], 0, known.cells[0].runs[0])


def test_a_report_that_is_not_there_is_one_line(again, tmp_path):
    with pytest.raises(SystemExit, match=r"none\.json cannot be read"):
        again["main"]([str(tmp_path / "none.json"), "target", "draft"])
