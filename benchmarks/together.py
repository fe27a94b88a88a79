"""Requests at once in the embedded engine: in one pass of the target a round, and turn by turn.

    GOMP_SPINCOUNT=10000 THP_MEM_ALLOC_ENABLE=1 python benchmarks/together.py TARGET_DIR DRAFT_DIR

Greedy, with the draft and plainly, 1, 2, 4 and 8 requests. The two ways take turns, `--repeats`
times, so that a busy machine slows both alike; a ratio is the median over the repeats. "equal"
counts requests whose text is what they get alone.
"""

import argparse
import json
import statistics
import time

import torch
from transformers import AutoTokenizer

from dflash_deploy.speculative import SpeculativeDecoder, load_draft, load_target
from dflash_deploy.speculative.types import Sampling

QUESTIONS = (
    "How does a windmill turn the wind into flour?",
    "Give me three ideas for a rainy afternoon with children.",
    "Write a Python function that reverses the words of a sentence.",
    "What is the difference between a lake and a lagoon?",
    "A train leaves at 9:40 and arrives at 13:05. How long does it take?",
    "Write a short letter to a landlord about a dripping tap.",
    "Explain in simple words what a vaccine does.",
    "List what one needs to plant an apple tree.",
)


def turn_by_turn(_, sequences):
    return [next(sequence, None) for sequence in sequences]


def together(decoder, sequences):
    return decoder.together(sequences)


def finish(way, decoder, prompts, sampling, speculate):
    """All answers, and tokens per second over all."""
    start = time.perf_counter()
    sequences = [decoder.generate(ids, sampling, speculate=speculate) for ids in prompts]
    answers = [[] for _ in sequences]
    live = list(range(len(sequences)))
    while live:
        for index, step in zip(
            tuple(live), way(decoder, [sequences[n] for n in live]), strict=True
        ):
            if step is None:
                live.remove(index)
            else:
                answers[index] += step.tokens
    return answers, sum(map(len, answers)) / (time.perf_counter() - start)


def measure(decoder, prompts, sampling, options):
    alone = {
        speculate: [finish(together, decoder, [ids], sampling, speculate)[0][0] for ids in prompts]
        for speculate in (True, False)
    }
    for count in options.requests:
        rates = {(way, s): [] for s in (True, False) for way in (turn_by_turn, together)}
        equal = {True: 0, False: 0}
        for _ in range(options.repeats):
            for (way, speculate), seen in rates.items():
                answers, rate = finish(way, decoder, prompts[:count], sampling, speculate)
                seen.append(rate)
                if way is together:
                    equal[speculate] += sum(
                        a == b for a, b in zip(answers, alone[speculate], strict=False)
                    )
        for speculate, name in ((True, "dflash"), (False, "plain")):
            pairs = zip(rates[together, speculate], rates[turn_by_turn, speculate], strict=True)
            yield {
                "requests": count,
                "decoding": name,
                "tokens_per_s": round(statistics.median(rates[together, speculate]), 1),
                "over_turn_by_turn": round(statistics.median(a / b for a, b in pairs), 2),
                "equal": f"{equal[speculate]}/{count * options.repeats}",
            }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target")
    parser.add_argument("draft")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--requests", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--dtype", default="float32")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    tokenizer = AutoTokenizer.from_pretrained(options.target)
    prompts = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], add_generation_prompt=True, return_dict=False
        )
        for text in QUESTIONS
    ]
    decoder = SpeculativeDecoder(
        load_target(options.target, dtype=options.dtype), load_draft(options.draft)
    )
    sampling = Sampling(options.tokens, stop_token_ids=frozenset({tokenizer.eos_token_id}))
    for row in measure(decoder, prompts, sampling, options):
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
