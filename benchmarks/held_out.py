"""Is greedy text with the draft that of plain decoding, on 200 prompts that nothing was tuned on?

    python benchmarks/held_out.py TARGET_DIR DRAFT_DIR [--tokens 128] [--limit 200] [--lines FILE]
                                  [--out FILE]

Both in one process, by turns, token by token the same target. Where the two part, plain decoding
says once more what it says, with log-probabilities: a cost of rounding size is a near tie, which a
sum in another order decides; a larger one is a bug, and the exit code is 1.

It takes about an hour on two cores. `--lines` keeps a line a prompt as it goes, and another run
with the same target, draft and options goes on behind them.
"""

import argparse
import json
import statistics
import sys
import time
from collections import defaultdict
from pathlib import Path

import msgspec
import torch
import transformers
from held_out_prompts import prompts
from processor import processor
from transformers import AutoTokenizer

from dflash_deploy.measure.judged import Compared, judge
from dflash_deploy.measure.lossless import BETWEEN_SUMS, Divergence
from dflash_deploy.speculative import SpeculativeDecoder, load_draft, load_target
from dflash_deploy.speculative.types import Sampling, Step
from dflash_deploy.train.parting import parting

UNTOLD = Divergence(0, "", "", None)


def run(decoder, prompt, sampling, *, speculate):
    start = time.perf_counter()
    steps = list(decoder.generate(prompt, sampling, speculate=speculate))
    seconds = time.perf_counter() - start
    return [token for step in steps for token in step.tokens], len(steps) - 1, seconds


def measure(options, done):
    """A row for each prompt behind the first `done`."""
    tokenizer = AutoTokenizer.from_pretrained(options.target)
    target = load_target(options.target, dtype=options.dtype, device=options.device)
    decoder = SpeculativeDecoder(target, load_draft(options.draft))
    sampling = Sampling(options.tokens, stop_token_ids=frozenset({tokenizer.eos_token_id}))
    for number, (category, text) in enumerate(prompts()[: options.limit]):
        if number < done:
            continue
        ids = tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], add_generation_prompt=True, return_dict=False
        )
        plain, _, plain_s = run(decoder, ids, sampling, speculate=False)
        drafted, cycles, drafted_s = run(decoder, ids, sampling, speculate=True)
        found = None
        if plain != drafted:
            # without a parting plain decoding does not repeat itself: no proof of anything
            found = parting(decoder, ids, sampling, [Step(tuple(drafted))]) or UNTOLD
            print(f"{number} {category}: {found}", file=sys.stderr)
        yield {
            "number": number,
            "category": category,
            "parting": found,
            "equal": found is None,
            "tokens": len(drafted),
            "cycles": cycles,
            "speedup": plain_s / drafted_s,
        }


def kept(options):
    """All rows; those of an earlier run are read, and each new one is written at once."""
    if options.lines is None:
        yield from measure(options, 0)
        return
    of = {name: getattr(options, name) for name in ("target", "draft", "tokens", "device", "dtype")}
    first, *earlier = _lines(options.lines) or [msgspec.json.encode(of)]
    if msgspec.json.decode(first) != of:
        sys.exit(f"{options.lines} is of another run, {first.decode()}: another --lines")
    if not earlier:
        options.lines.write_bytes(first + b"\n")
    earlier = earlier[: options.limit]
    for line in earlier:
        row = msgspec.json.decode(line)
        yield row | {"parting": msgspec.convert(row["parting"], Divergence | None)}
    with options.lines.open("ab", buffering=0) as file:
        for row in measure(options, len(earlier)):
            file.write(msgspec.json.encode(row) + b"\n")
            yield row


def _lines(path):
    return path.read_bytes().splitlines() if path.exists() else []


def judged(rows, dtype):
    seen = [Compared(str(row["number"]), row["parting"], False, False) for row in rows]
    return judge(seen, max_regret=BETWEEN_SUMS[dtype])


def summary(rows, dtype):
    committed, cycles = (sum(row[key] for row in rows) for key in ("tokens", "cycles"))
    return {
        "equal": f"{sum(row['equal'] for row in rows)}/{len(rows)}",
        "near_ties": len(judged(rows, dtype).near_ties),
        "tokens_per_cycle": round((committed - len(rows)) / max(cycles, 1), 2),
        "speedup": round(statistics.median(row["speedup"] for row in rows), 2),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target")
    parser.add_argument("draft")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--limit", type=int, default=200)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32", choices=BETWEEN_SUMS)
    parser.add_argument("--lines", type=Path, help="a line a prompt, to go on from")
    parser.add_argument("--out", type=argparse.FileType("w"), default="-")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows = list(kept(options))
    by_category = defaultdict(list)
    for row in rows:
        by_category[row["category"]].append(row)
    partings = [row for row in rows if not row["equal"]]
    result = {
        "machine": processor(),
        "torch": torch.__version__, "transformers": transformers.__version__,
        "device": options.device, "dtype": options.dtype, "tokens": options.tokens,
        "all": summary(rows, options.dtype),
        "categories": {name: summary(rows, options.dtype) for name, rows in by_category.items()},
        "partings": msgspec.to_builtins(partings),
    }  # fmt: skip
    options.out.write(json.dumps(result, indent=2) + "\n")
    return int(not judged(rows, options.dtype).passed)


if __name__ == "__main__":
    sys.exit(main())
