"""benchmarks/acceptance.py: answers written together, and walked, are those of a decoder."""

from __future__ import annotations

import json
import runpy
from collections import defaultdict
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from dflash_deploy.measure.workload import DEFAULT, load_workload
from dflash_deploy.speculative import SpeculativeDecoder, load_draft
from dflash_deploy.speculative.load import load_model
from dflash_deploy.speculative.types import Sampling
from dflash_deploy.train.draft import fresh
from dflash_deploy.train.save import config_json
from tests.unit.train import small

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "acceptance.py"
TOKENS, LIMIT, SAID = 30, 12, 8
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


def decoded(target, draft, skip):
    """Cycles and tokens of each category, one prompt at a time."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(target)
    decoder = SpeculativeDecoder(load_model(target, dtype="float32"), load_draft(draft))
    sampling = Sampling(TOKENS, stop_token_ids=frozenset({tokenizer.eos_token_id}))
    found, tokens = defaultdict(list), 0
    for prompt in load_workload(DEFAULT, limit=LIMIT, seed=0)[1]:
        if prompt.category == skip:
            continue
        ids = tokenizer.apply_chat_template(
            prompt.messages, add_generation_prompt=True, return_dict=False
        )
        steps = list(decoder.generate(ids, sampling))
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
