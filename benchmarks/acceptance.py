"""Acceptance of drafts over the project's own workload, by category: greedy, whole blocks.

    python benchmarks/acceptance.py TARGET_DIR DRAFT_DIR [DRAFT_DIR ...] [--tokens 128] [--limit 4]
    python benchmarks/acceptance.py TARGET_DIR DRAFT_DIR --device cuda

The target's greedy answers to all prompts are written together, without a draft; each draft is then
walked through them (`dflash_deploy.train.walk`), which gives the cycles of a decoder that has every
block checked whole. The embedded engine on a CPU has half of some blocks checked, because that is
faster; its own acceptance lengths are lower. On a GPU all is computed in bfloat16, where a near tie
may fall to another token than in float32.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from collections import defaultdict

import torch
from transformers import AutoTokenizer

from dflash_deploy.measure.workload import DEFAULT, load_workload
from dflash_deploy.speculative.load import load_model
from dflash_deploy.train.batched import Continued
from dflash_deploy.train.blocks import Answer
from dflash_deploy.train.draft import loaded
from dflash_deploy.train.frozen import Frozen
from dflash_deploy.train.gpus import Devices
from dflash_deploy.train.walk import walked

DTYPES = {"cpu": "float32", "cuda": "bfloat16"}


def main(words=None):
    options = parsed(words)
    torch.set_num_threads(min(2, torch.get_num_threads()))
    model = load_model(options.target, dtype=DTYPES[options.device], device=options.device)
    tokenizer = AutoTokenizer.from_pretrained(options.target)
    asked = prompts(tokenizer, options.limit, options.skip)
    said = answered(model, [ids for _, ids in asked], options.tokens, tokenizer.eos_token_id)
    categories = [category for category, _ in asked]
    print(json.dumps({
        "device": torch.cuda.get_device_name() if options.device == "cuda" else "cpu",
        "dtype": DTYPES[options.device],
        "prompts": len(said),
        "tokens": sum(sum(answer.loss_mask) for answer in said),
        "drafts": {path: by_category(model, path, said, categories) for path in options.drafts},
    }, indent=1))  # fmt: skip


def parsed(words):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target")
    parser.add_argument("drafts", nargs="+")
    parser.add_argument("--tokens", type=int, default=128, help="of each answer at most")
    parser.add_argument("--limit", type=int, help="prompts, of all categories in turn")
    parser.add_argument("--skip", nargs="*", default=[], metavar="CATEGORY")
    parser.add_argument("--device", choices=DTYPES, default="cpu")
    options = parser.parse_args(words)
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("torch sees no GPU here: leave --device out")
    for path in options.drafts:
        if not (pathlib.Path(path) / "config.json").is_file():
            parser.error(f"{path} holds no draft")
    return options


def prompts(tokenizer, limit, skip):
    """The workload's, each with its category."""
    _, every = load_workload(DEFAULT, limit=limit, seed=0)
    return [
        (prompt.category, tokenized(tokenizer, prompt.messages))
        for prompt in every
        if prompt.category not in skip
    ]


def tokenized(tokenizer, messages):
    """As a server takes them."""
    return tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)


def answered(model, asked, tokens, end):
    """The prompts with the target's greedy answers."""
    rows = [Continued(ids, tokens) for ids in asked]
    said = Devices(model).continued(rows, frozenset({end}), seed=0)
    return [
        Answer(number, [*ids, *answer], [0] * len(ids) + [1] * len(answer))
        for number, (ids, answer) in enumerate(zip(asked, said, strict=True))
    ]


def by_category(model, path, answers, categories):
    """The cycles of one draft, of each category and of all."""
    draft = loaded(path, model.device)
    frozen = Frozen(model, draft.config.target_layer_ids)
    longest = max((len(answer.input_ids) for answer in answers), default=0)
    seen = defaultdict(list)
    for walk in walked(draft, frozen, answers, longest):
        seen[categories[walk.id]] += walk.accepted
        seen["all"] += walk.accepted
    found = {category: told(kept) for category, kept in seen.items() if kept}
    print(path, found.get("all"), file=sys.stderr, flush=True)
    return found


def told(kept):
    """Of one category's cycles: how many tokens each brings, the target's own included."""
    return {"cycles": len(kept), "acceptance_length": round(1 + sum(kept) / len(kept), 3)}


if __name__ == "__main__":
    main()
