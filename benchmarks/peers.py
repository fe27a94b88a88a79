"""The same prompts through DFlash here, and through what else decodes a pair in Python.

    pip install --no-deps --target PEER dflash==0.1.0
    python benchmarks/peers.py TARGET_DIR DRAFT_DIR --peer-path PEER [--limit 4] [--tokens 96]
    python benchmarks/peers.py ... --device cuda --dtype bfloat16 --noise TARGET_CONFIG DRAFT_CONFIG

The engines: this one with its draft and plainly, `transformers.generate`, its prompt lookup (n-gram
assistance), and z-lab's loop. Each has a process of its own, and they take turns on every prompt,
so that a busy machine slows all of them alike. The prompts are the project's own workload;
`--limit` is for each of its categories. A ratio is the median over prompts of speed against
speed; "equal" counts answers that are token for token those of `transformers.generate`, and
"equal_to_same_path" those of plain decoding here in passes of the same width.

`--noise` adds a pair of which there are only the two folders with a config.json: random weights,
random prompts, no acceptance worth a name. What it tells is the time of a cycle behind the prompt;
at an equal acceptance length two loops are as fast as their cycles.
"""

import argparse
import json
import pathlib
import random
import statistics
import sys
from collections import defaultdict

import torch
import transformers
from peer_process import Engine
from processor import processor
from transformers import AutoTokenizer

from dflash_deploy.measure.workload import DEFAULT, load_workload

ENGINES = ("dflash", "plain", "transformers", "prompt lookup", "z-lab")
SAME_PATH = "same path"
# lengths of warm-up prompts: a recorded cycle, and a library's choice of kernels, is for a length
WARM_UP = (40, 300, 700)
NOISE_PROMPTS, NOISE_TOKENS = (100, 180, 320), 96


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


def measure(engines, prompts, tokens):
    """{category: {engine: [(tokens per second, answer, cycles)]}}."""
    seen = defaultdict(lambda: defaultdict(list))
    for category, ids in prompts:
        for engine in engines:
            answer = engine.answer(ids, tokens)
            rate = len(answer["ids"]) / answer["seconds"]
            seen[category][engine.name].append((rate, answer["ids"], answer["cycles"]))
        rates = (f"{name} {rows[-1][0]:.1f}" for name, rows in seen[category].items())
        print(f"{category}, {len(ids)} tokens: {', '.join(rates)}", file=sys.stderr, flush=True)
    return seen


def real(options):
    engines = Engine.start_all(options.engines, options, options.target, options.draft)
    for length in WARM_UP if options.device != "cpu" else WARM_UP[:1]:
        for engine in engines:
            engine.answer(list(range(100, 100 + length)), 16)
    seen = measure(engines, asked(options), options.tokens)
    for engine in engines:
        engine.end()
    return {
        "all": summary(joined(seen)),
        "categories": {name: summary(rows) for name, rows in seen.items()},
    }


def noise(options):
    """Milliseconds of a cycle, the prompt's own time taken off."""
    left_out = (SAME_PATH, "prompt lookup")  # one cycle costs as any other; noise repeats nothing
    names = [name for name in options.engines if name not in left_out]
    engines = Engine.start_all(names, options, *options.noise, noise=True)
    draw = random.Random(0)
    cycles = defaultdict(list)
    for length in NOISE_PROMPTS:
        ids = [draw.randrange(1000, 30000) for _ in range(length)]
        for engine in engines:
            engine.answer(ids, NOISE_TOKENS)  # warm-up for this length
        for engine in engines:
            alone = engine.answer(ids, 1)["seconds"]
            answer = engine.answer(ids, NOISE_TOKENS)
            # z-lab's loop counts them on a GPU only; of noise nothing is accepted
            count = answer["cycles"] or len(answer["ids"]) - 1
            cycles[engine.name].append((answer["seconds"] - alone) / count * 1000)
    for engine in engines:
        engine.end()
    first = engines[0].name
    return {
        name: {
            "ms_per_cycle": round(statistics.median(times), 2),
            f"over_{first}": round(
                statistics.median(b / a for a, b in zip(cycles[first], times, strict=True)), 2
            ),
        }
        for name, times in cycles.items()
    }


def ratio(ours, theirs):
    pairs = zip(ours, theirs, strict=True)
    return round(statistics.median(a / b for (a, *_), (b, *_) in pairs), 2)


def summary(rows):
    """Of one category, or of all: {engine: [(tokens per second, answer, cycles)]}."""
    first = next(iter(rows))
    references = {"equal": rows.get("transformers", rows[first])}
    if SAME_PATH in rows:
        references["equal_to_same_path"] = rows[SAME_PATH]
    return {
        name: {
            "tokens_per_s": round(statistics.median(rate for rate, *_ in results), 1),
            f"{first}_over_it": ratio(rows[first], results),
            **{word: equal(results, wanted) for word, wanted in references.items()},
            "tokens_per_cycle": per_cycle(results),
        }
        for name, results in rows.items()
    }


def equal(results, wanted):
    same = sum(a == b for (_, a, _), (_, b, _) in zip(results, wanted, strict=True))
    return f"{same}/{len(results)}"


def per_cycle(results):
    if any(cycles is None for *_, cycles in results):
        return None
    committed = sum(len(answer) - 1 for _, answer, _ in results)
    return round(committed / max(sum(cycles for *_, cycles in results), 1), 2)


def joined(seen):
    every = defaultdict(list)
    for rows in seen.values():
        for name, results in rows.items():
            every[name] += results
    return every


def machine(options):
    if options.device != "cpu":
        return torch.cuda.get_device_name()
    return f"{processor()}, {options.threads} threads"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target")
    parser.add_argument("draft")
    parser.add_argument("--peer-path", default="", help="the folder that holds the package dflash")
    parser.add_argument("--engines", type=lambda text: text.split(","), help="default: all")
    parser.add_argument("--limit", type=int, help="prompts of each category")
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--noise", nargs=2, metavar=("TARGET_CONFIG", "DRAFT_CONFIG"))
    parser.add_argument("--out", type=pathlib.Path, help="a JSON file; default: standard output")
    options = parser.parse_args()
    if options.engines is None:
        options.engines = [*ENGINES, *([] if options.device == "cpu" else [SAME_PATH])]
    if "z-lab" in options.engines and not options.peer_path:
        parser.error("z-lab's loop needs --peer-path; or leave it out with --engines")
    result = {
        "machine": machine(options),
        "torch": torch.__version__, "transformers": transformers.__version__,
        "device": options.device, "dtype": options.dtype, "tokens": options.tokens,
        **real(options),
    }  # fmt: skip
    if options.noise:
        if options.out is not None:  # kept, should the second part fail
            tell(result, options.out)
        result["noise"] = noise(options)
    tell(result, options.out)


def tell(result, path):
    text = json.dumps(result, indent=2)
    if path is None:
        print(text)
    else:
        path.write_text(text + "\n")


if __name__ == "__main__":
    main()
