"""The same prompts through the embedded engine and a server of another: the same text and drafts?

    vllm serve TARGET_DIR --dtype float32 --port 8000 --speculative-config \
        '{"method": "dflash", "model": "DRAFT_DIR", "num_speculative_tokens": 7}'
    python benchmarks/engines.py TARGET_DIR DRAFT_DIR --url http://127.0.0.1:8000 [--tokens 96]

Greedy, one request at a time, as token numbers, so that no template comes between. Here the answer
is the target's own, and its cycles are those of a decoder that has every block checked whole
(`acceptance.py`); there the server's counters are read before and after each answer, and once more
for its first cycle alone, which no rejected token came before. Nobody else may ask it meanwhile.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path

import httpx
import torch
from acceptance import answered, prompts
from prometheus_client.parser import text_string_to_metric_families
from transformers import AutoTokenizer

from dflash_deploy.speculative.load import load_model
from dflash_deploy.train.draft import loaded
from dflash_deploy.train.frozen import Frozen
from dflash_deploy.train.walk import walked

PREFIX = "vllm:spec_decode_num_"


def main():
    options = parsed()
    torch.set_num_threads(options.threads)
    try:
        server = Server(options.url)
    except httpx.HTTPError as error:
        raise SystemExit(f"{options.url}: {error}") from error
    model = load_model(options.target, dtype="float32", device="cpu")
    tokenizer = AutoTokenizer.from_pretrained(options.target)
    asked = prompts(tokenizer, options.limit, options.skip)
    draft = loaded(options.draft, model.device)
    frozen = Frozen(model, draft.config.target_layer_ids)
    rows = []
    with Path(options.lines).open("a") as lines:
        for category, ids in asked:
            row = compared(model, draft, frozen, server, ids, options.tokens, tokenizer)
            rows.append({"category": category, **row})
            print(json.dumps(rows[-1]), file=lines, flush=True)
    print(json.dumps({"server": server.version, "prompts": len(rows), **summed(rows)}, indent=1))


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target")
    parser.add_argument("draft")
    parser.add_argument("--url", required=True)
    parser.add_argument("--tokens", type=int, default=96, help="of each answer at most")
    parser.add_argument("--limit", type=int, help="prompts, of all categories in turn")
    parser.add_argument("--skip", nargs="*", default=["long-context"], metavar="CATEGORY")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--lines", default="/dev/null", help="a file that gets a line a prompt")
    return parser.parse_args()


class Server:
    """One that counts as vLLM does."""

    def __init__(self, url):
        self.url, self._http = url, httpx.Client(base_url=url, timeout=600)
        self.model = self._http.get("/v1/models").json()["data"][0]["id"]
        self.version = self._http.get("/version").json().get("version")

    def answer(self, ids, tokens, end):
        """Its token numbers, without the one that ended it; cycles and accepted tokens."""
        before = self.counted()
        body = {"model": self.model, "prompt": ids, "max_tokens": tokens, "temperature": 0,
                "return_token_ids": True}  # fmt: skip
        choice = (
            self._http.post("/v1/completions", json=body).raise_for_status().json()["choices"][0]
        )
        after = self.counted()
        said = choice["token_ids"]
        cycles, accepted = (after[name] - before[name] for name in ("drafts", "accepted_tokens"))
        return said[:-1] if said[-1:] == [end] else said, int(cycles), int(accepted)

    def counted(self):
        """Totals by name, and accepted tokens by place."""
        found = defaultdict(float)
        for family in text_string_to_metric_families(self._http.get("/metrics").text):
            for sample in family.samples:
                if sample.name.startswith(PREFIX) and sample.name.endswith("_total"):
                    name = sample.name.removeprefix(PREFIX).removesuffix("_total")
                    place = sample.labels.get("position")
                    found[name if place is None else int(place)] += sample.value
        return found


def compared(model, draft, frozen, server, ids, tokens, tokenizer):
    (answer,) = answered(model, [ids], tokens, tokenizer.eos_token_id)
    (walk,) = walked(draft, frozen, [answer], len(answer.input_ids))
    ours = answer.input_ids[len(ids) :]
    ours = ours[:-1] if ours[-1] == tokenizer.eos_token_id else ours
    theirs, cycles, accepted = server.answer(ids, tokens, tokenizer.eos_token_id)
    _, _, first = server.answer(ids, 2, tokenizer.eos_token_id)
    row = {
        "tokens": len(ours), "same_text": ours == theirs,
        "here": [len(walk.accepted), sum(walk.accepted)], "there": [cycles, accepted],
        "first_cycle": [walk.accepted[0], first],
    }  # fmt: skip
    print(row, file=sys.stderr, flush=True)
    return row


def summed(rows):
    zeros = {"same_text": 0, "same_first_cycle": 0, "prompts": 0}
    found = defaultdict(lambda: {**zeros, "here": [0, 0], "there": [0, 0]})
    for row in rows:
        for name in ("all", row["category"]):
            kept = found[name]
            kept["prompts"] += 1
            kept["same_text"] += row["same_text"]
            kept["same_first_cycle"] += row["first_cycle"][0] == row["first_cycle"][1]
            for side in ("here", "there"):
                kept[side] = [a + b for a, b in zip(kept[side], row[side], strict=True)]
    for kept in found.values():
        for side in ("here", "there"):
            cycles, accepted = kept.pop(side)
            kept[side] = {"cycles": cycles, "acceptance_length": round(1 + accepted / cycles, 3)}
    return {"categories": found}


if __name__ == "__main__":
    main()
