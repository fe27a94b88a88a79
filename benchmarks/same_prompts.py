"""The prompts of a report, marks and all, through this project's own decoding: the same acceptance?

    dflash bench smollm2-135m --engine vllm --weights q4_1 --output REPORT
    python benchmarks/same_prompts.py REPORT TARGET_DIR DRAFT_DIR --concurrency 1

One line a run of the report's draft, minutes apart, with the tokens and cycles of both. Here the
answers are the target's greedy ones in float32, and the cycles those of a decoder that has every
block checked whole (`acceptance.py`); there they are what the server counted. Its last cycle of an
answer counts whole, also where `max_tokens` cuts it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import msgspec
import torch
from acceptance import answered, tokenized
from transformers import AutoTokenizer

from dflash_deploy.errors import UsageError
from dflash_deploy.measure.asks import Style, Task, asks
from dflash_deploy.measure.results import read
from dflash_deploy.measure.turns import Turn
from dflash_deploy.measure.workload import load_workload
from dflash_deploy.plan import Endpoint
from dflash_deploy.speculative.load import load_model
from dflash_deploy.train.draft import loaded
from dflash_deploy.train.frozen import Frozen
from dflash_deploy.train.walk import walked


def main(words=None):
    options = parsed(words)
    torch.set_num_threads(min(2, torch.get_num_threads()))
    try:
        report = read(options.report)
    except UsageError as error:
        raise SystemExit(error.message) from error
    model = load_model(options.target, dtype="float32", device="cpu")
    tokenizer = AutoTokenizer.from_pretrained(options.target)
    draft = loaded(options.draft, model.device)
    frozen = Frozen(model, draft.config.target_layer_ids)
    drafting = {arm.name for arm in report.arms if arm.method == "dflash"}
    for cell in report.cells:
        if cell.arm not in drafting or options.concurrency not in (None, cell.load.concurrency):
            continue
        workload = next(each for each in report.workloads if each.name == cell.workload)
        for repeat, run in enumerate(cell.runs):
            ids = [
                tokenized(tokenizer, body["messages"])
                for body in sent(report, workload, cell, repeat, run)
            ]
            said = answered(model, ids, workload.max_tokens, tokenizer.eos_token_id)
            cycles = [
                accepted
                for walk in walked(draft, frozen, said, max(len(one.input_ids) for one in said))
                for accepted in walk.accepted
            ]
            print(json.dumps({
                "arm": cell.arm, "load": str(cell.load), "repeat": repeat, "prompts": len(said),
                "here": told(sum(sum(one.loss_mask) for one in said), len(cycles), sum(cycles)),
                "there": told(run.output_tokens, run.speculation.drafts, run.speculation.accepted),
            }), flush=True)  # fmt: skip


def parsed(words):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("report", type=Path, help="of texts, not of token ids")
    parser.add_argument("target")
    parser.add_argument("draft")
    parser.add_argument("--concurrency", type=int, help="of the runs; default: all of them")
    return parser.parse_args(words)


def sent(report, workload, cell, repeat, run):
    """The requests of one run, as `dflash bench` made them."""
    known, prompts = load_workload(workload.name, limit=workload.prompts, seed=report.seed)
    if known.sha256 != workload.sha256:
        raise SystemExit(f"{workload.name} is another than the report's: no comparison")
    label = Turn(cell.arm, cell.load, workload.name, repeat).label
    task, style = Task(workload, tuple(prompts)), Style(seed=report.seed)
    nobody = Endpoint("http://127.0.0.1", report.model, report.engine)
    return [msgspec.json.decode(ask.body) for ask in
            asks(task, style, nobody, label, run.requests, {})]  # fmt: skip


def told(tokens, cycles, accepted):
    return {"tokens": int(tokens), "cycles": int(cycles),
            "acceptance_length": round(1 + accepted / cycles, 3)}  # fmt: skip


if __name__ == "__main__":
    main()
