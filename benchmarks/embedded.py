"""The embedded engine on the CPU: with DFlash, plain, and transformers.generate, prompt by prompt.

    python benchmarks/embedded.py TARGET_DIR DRAFT_DIR [--tokens 128] [--threads 2] [--repeats 1]

Greedy and in one dtype. The three take turns on every prompt, so that a busy machine slows all of
them alike; a time is a whole request, prompt included. "equal" counts answers that are token for
token those of transformers.generate.
"""

import argparse
import json
import statistics
import time
from dataclasses import dataclass, field

import torch
import transformers
from processor import processor
from transformers import AutoModelForCausalLM, AutoTokenizer

from dflash_deploy.speculative import SpeculativeDecoder, load_draft, load_target
from dflash_deploy.speculative.types import Sampling

EVERYDAY = (
    "What is the capital of France, and what is it known for?",
    "Explain in simple words how a rainbow forms.",
    "Give me three tips for sleeping better.",
    "Write a short thank-you note to a colleague who helped me move house.",
    "How do I boil an egg so that the yolk stays soft?",
    "What is the difference between a virus and a bacterium?",
    "Write a Python function that returns the largest number in a list.",
    "Summarise the plot of Romeo and Juliet in two sentences.",
    "I have 12 apples and give away 5. How many are left? Explain.",
    "Suggest a name and a slogan for a small bakery.",
    "Why do leaves change colour in autumn?",
    "List the steps to change a flat bicycle tyre.",
)
# the kind of request that the target writes when it is asked to write one
TYPICAL = (
    "Can you summarize the main points of an article about renewable energy sources?",
    "I'm looking for a way to improve my writing skills. Can you provide some tips?",
    "Write a descriptive paragraph about a peaceful garden in the spring.",
    "What are some ways to reduce the amount of plastic waste in our oceans?",
)


@dataclass
class Tally:
    """What one engine did, prompt by prompt."""

    seconds: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    equal: int = 0
    cycles: int = 0

    def add(self, seconds, answer, reference):
        self.seconds.append(seconds)
        self.tokens.append(len(answer))
        self.equal += answer == reference

    @property
    def rates(self):
        return [n / s for n, s in zip(self.tokens, self.seconds, strict=True)]

    @property
    def rate(self):
        return statistics.median(self.rates)


def timed(function):
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def run(decoder, prompt, sampling, speculate):
    steps = list(decoder.generate(prompt, sampling, speculate=speculate))
    return [token for step in steps for token in step.tokens], len(steps) - 1


def reference(model, prompt, count, stop):
    ids = torch.tensor([prompt])
    out = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=count,
        do_sample=False,
        eos_token_id=stop,
        pad_token_id=stop,
    )
    return out[0, len(prompt) :].tolist()


def measure(options):
    tokenizer = AutoTokenizer.from_pretrained(options.target)
    stop = tokenizer.eos_token_id
    hub = AutoModelForCausalLM.from_pretrained(options.target, dtype=torch.float32).eval()
    decoder = SpeculativeDecoder(
        load_target(options.target, dtype="float32"),
        load_draft(options.draft),
        block_size=options.block,
        adaptive=True,
    )
    sampling = Sampling(options.tokens, stop_token_ids=frozenset({stop}))
    tallies = {name: Tally() for name in ("dflash", "plain", "transformers")}
    prompts = [*EVERYDAY, *TYPICAL][: options.prompts]
    for index, text in enumerate(["Hello!", *prompts * options.repeats]):
        messages = [{"role": "user", "content": text}]
        prompt = tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_dict=False
        )
        wanted_s, wanted = timed(lambda p=prompt: reference(hub, p, options.tokens, stop))
        fast_s, (fast, cycles) = timed(lambda p=prompt: run(decoder, p, sampling, True))
        plain_s, (plain, _) = timed(lambda p=prompt: run(decoder, p, sampling, False))
        if index == 0:
            continue  # warm-up
        tallies["transformers"].add(wanted_s, wanted, wanted)
        tallies["plain"].add(plain_s, plain, wanted)
        tallies["dflash"].add(fast_s, fast, wanted)
        tallies["dflash"].cycles += cycles
        if not options.json:
            print(
                f"{len(fast):4} tokens  AL {(len(fast) - 1) / max(cycles, 1):5.2f}  "
                f"{len(fast) / fast_s:6.1f} {len(plain) / plain_s:6.1f} "
                f"{len(wanted) / wanted_s:6.1f} tok/s  {text[:48]}"
            )
    return tallies


def ratio(ours, theirs):
    return statistics.median(a / b for a, b in zip(ours.rates, theirs.rates, strict=True))


def summary(tallies, options):
    dflash, plain, hub = (tallies[name] for name in ("dflash", "plain", "transformers"))
    count = len(dflash.tokens)
    return {
        "machine": processor(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "threads": options.threads,
        "prompts": count,
        "tokens_per_s": {name: round(tally.rate, 1) for name, tally in tallies.items()},
        "dflash_over_plain": round(ratio(dflash, plain), 2),
        "dflash_over_transformers": round(ratio(dflash, hub), 2),
        "plain_over_transformers": round(ratio(plain, hub), 2),
        "total_dflash_over_plain": round(sum(plain.seconds) / sum(dflash.seconds), 2),
        "total_dflash_over_transformers": round(sum(hub.seconds) / sum(dflash.seconds), 2),
        "acceptance_length": round((sum(dflash.tokens) - count) / dflash.cycles, 2),
        "equal": {name: f"{tally.equal}/{count}" for name, tally in tallies.items()},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target")
    parser.add_argument("draft")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--prompts", type=int, default=None, help="only the first N")
    parser.add_argument("--block", type=int, default=None)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    result = summary(measure(options), options)
    print(json.dumps(result, indent=None if options.json else 2))


if __name__ == "__main__":
    main()
