"""The same prompts through DFlash here, and through what else decodes a pair in Python.

    pip install --no-deps --target PEER dflash==0.1.0
    python benchmarks/peers.py TARGET_DIR DRAFT_DIR --peer-path PEER [--limit 4] [--tokens 96]

The engines: this one with its draft and plainly, `transformers.generate`, its prompt lookup (n-gram
assistance), and z-lab's loop. Each has a process of its own, and they take turns on every prompt,
so that a busy machine slows all of them alike. The prompts are the project's own workload;
`--limit` is for each of its categories. A ratio is the median over prompts of speed against
speed; "equal" counts answers that are token for token those of `transformers.generate`.
"""

import argparse
import json
import pathlib
import platform
import statistics
import subprocess
import sys
from collections import defaultdict

import torch
import transformers
from transformers import AutoTokenizer

from dflash_deploy.measure.workload import DEFAULT, load_workload

ENGINES = ("dflash", "plain", "transformers", "prompt lookup", "z-lab")
WORKER = pathlib.Path(__file__).with_name("peer_engines.py")


class Engine:
    """A worker process; it loads its weights while the others load theirs."""

    def __init__(self, name, options):
        words = [sys.executable, WORKER, name, options.target, options.draft]
        words += ["--device", options.device, "--dtype", options.dtype]
        words += ["--threads", str(options.threads), "--peer-path", options.peer_path]
        self.name = name
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def answer(self, ids, tokens):
        self._process.stdin.write(json.dumps({"ids": ids, "tokens": tokens}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} ended with exit code {self._process.wait()}")
        return json.loads(line)

    def end(self):
        self._process.stdin.close()
        self._process.wait()


def asked(options):
    """Prompts of every category, in the categories' own order, as token ids."""
    tokenizer = AutoTokenizer.from_pretrained(options.target)
    _, prompts = load_workload(DEFAULT, limit=None, seed=0)
    taken = defaultdict(int)
    for prompt in prompts:
        taken[prompt.category] += 1
        if options.limit is None or taken[prompt.category] <= options.limit:
            yield (
                prompt.category,
                tokenizer.apply_chat_template(
                    prompt.messages, add_generation_prompt=True, return_dict=False
                ),
            )


def measure(options):
    engines = [Engine(name, options) for name in options.engines]
    for engine in engines:
        engine.answer(list(range(100, 140)), 16)  # warm-up
    seen = defaultdict(lambda: defaultdict(list))
    for category, ids in asked(options):
        answers = {engine.name: engine.answer(ids, options.tokens) for engine in engines}
        wanted = answers.get("transformers", answers[options.engines[0]])["ids"]
        for name, answer in answers.items():
            rate = len(answer["ids"]) / answer["seconds"]
            seen[category][name].append((rate, answer["ids"] == wanted))
    for engine in engines:
        engine.end()
    return seen


def ratio(ours, theirs):
    pairs = zip(ours, theirs, strict=True)
    return round(statistics.median(a / b for (a, _), (b, _) in pairs), 2)


def summary(rows):
    """Of one category, or of all: {engine: [(tokens per second, equal)]}."""
    first = next(iter(rows))
    return {
        name: {
            "tokens_per_s": round(statistics.median(rate for rate, _ in results), 1),
            f"{first}_over_it": ratio(rows[first], results),
            "equal": f"{sum(same for _, same in results)}/{len(results)}",
        }
        for name, results in rows.items()
    }


def joined(seen):
    every = defaultdict(list)
    for rows in seen.values():
        for name, results in rows.items():
            every[name] += results
    return every


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target")
    parser.add_argument("draft")
    parser.add_argument("--peer-path", default="", help="the folder that holds the package dflash")
    parser.add_argument("--engines", type=lambda text: text.split(","), default=list(ENGINES))
    parser.add_argument("--limit", type=int, help="prompts of each category")
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    options = parser.parse_args()
    if "z-lab" in options.engines and not options.peer_path:
        parser.error("z-lab's loop needs --peer-path; or leave it out with --engines")
    seen = measure(options)
    print(json.dumps({
        "machine": f"{platform.processor() or platform.machine()}, {options.threads} threads",
        "torch": torch.__version__, "transformers": transformers.__version__,
        "device": options.device, "dtype": options.dtype, "tokens": options.tokens,
        "all": summary(joined(seen)),
        "categories": {name: summary(rows) for name, rows in seen.items()},
    }, indent=2))  # fmt: skip


if __name__ == "__main__":
    main()
