"""Acceptance of drafts over the project's own workload, by category: greedy, whole blocks.

    python benchmarks/acceptance.py TARGET_DIR DRAFT_DIR [DRAFT_DIR ...] [--tokens 128] [--limit 4]

The target's greedy answers are decoded once, with the first draft, which changes no token; each
draft is then walked through them (`dflash_deploy.train.walk`), which gives the cycles of a decoder
that has every block checked whole. The embedded engine on a CPU has half of some blocks checked,
because that is faster; its own acceptance lengths are lower.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict

import torch
from transformers import AutoTokenizer

from dflash_deploy.measure.workload import DEFAULT, load_workload
from dflash_deploy.speculative import SpeculativeDecoder, load_draft
from dflash_deploy.speculative.load import load_model
from dflash_deploy.speculative.types import Sampling
from dflash_deploy.train.blocks import Answer
from dflash_deploy.train.draft import loaded
from dflash_deploy.train.frozen import Frozen
from dflash_deploy.train.walk import walked


def answered(options, model, tokenizer):
    """The workload's prompts with the target's answers, each with its category."""
    decoder = SpeculativeDecoder(model, load_draft(options.drafts[0]))
    ends = frozenset({tokenizer.eos_token_id})
    _, prompts = load_workload(DEFAULT, limit=options.limit, seed=0)
    for number, prompt in enumerate(prompts):
        if prompt.category in options.skip:
            continue
        ids = tokenizer.apply_chat_template(
            prompt.messages, add_generation_prompt=True, return_dict=False
        )
        steps = decoder.generate(ids, Sampling(options.tokens, stop_token_ids=ends))
        said = [token for step in steps for token in step.tokens]
        yield prompt.category, Answer(number, [*ids, *said], [0] * len(ids) + [1] * len(said))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target")
    parser.add_argument("drafts", nargs="+")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--limit", type=int, help="prompts of each category")
    parser.add_argument("--skip", nargs="*", default=[], metavar="CATEGORY")
    options = parser.parse_args()
    torch.set_num_threads(2)
    tokenizer = AutoTokenizer.from_pretrained(options.target)
    model = load_model(options.target, dtype="float32")
    drafts = {path: loaded(path, model.device) for path in options.drafts}
    seen = {path: defaultdict(list) for path in drafts}
    for category, answer in answered(options, model, tokenizer):
        for path, draft in drafts.items():
            frozen = Frozen(model, draft.config.target_layer_ids)
            for walk in walked(draft, frozen, [answer], len(answer.input_ids)):
                seen[path][category] += walk.accepted
                seen[path]["all"] += walk.accepted
        kept = seen[options.drafts[0]][category]
        print(category, round(1 + sum(kept) / max(1, len(kept)), 2), file=sys.stderr, flush=True)
    found = {
        path: {category: told(kept) for category, kept in by_category.items() if kept}
        for path, by_category in seen.items()
    }
    print(json.dumps(found, indent=1))


def told(kept):
    """Of one category's cycles: how many tokens each brings, the target's own included."""
    return {"cycles": len(kept), "acceptance_length": round(1 + sum(kept) / len(kept), 3)}


if __name__ == "__main__":
    main()
