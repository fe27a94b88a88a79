"""Requests at once in the embedded engine: in one pass of the target a round, and turn by turn.

    GOMP_SPINCOUNT=10000 THP_MEM_ALLOC_ENABLE=1 python benchmarks/together.py TARGET_DIR DRAFT_DIR

Greedy, with the draft and plainly, 1, 2, 4 and 8 requests. The draft is left out where it does not
pay, as on a server; `--always` measures it without that. The ways take turns, `--repeats` times, so
that a busy machine slows all alike; a ratio is the median over the repeats. `cpu_over_plain` is of
the process's CPU time, which other programs change less. "equal" counts requests whose text is what
they get alone.
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
    """All answers, and tokens over all: per second, and per second of the process's CPU time."""
    start, used = time.perf_counter(), time.process_time()
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
    tokens = sum(map(len, answers))
    return answers, tokens / (time.perf_counter() - start), tokens / (time.process_time() - used)


def over(ones, others):
    """The median of the ratios."""
    return round(statistics.median(a / b for a, b in zip(ones, others, strict=True)), 2)


def measure(decoder, prompts, sampling, options):
    alone = {
        speculate: [finish(together, decoder, [ids], sampling, speculate)[0][0] for ids in prompts]
        for speculate in (True, False)
    }
    for count in options.requests:
        rates = {(way, s): [] for s in (True, False) for way in (turn_by_turn, together)}
        cpu = {speculate: [] for speculate in (True, False)}
        equal = {True: 0, False: 0}
        for _ in range(options.repeats):
            for (way, speculate), seen in rates.items():
                answers, rate, per_cpu = finish(way, decoder, prompts[:count], sampling, speculate)
                seen.append(rate)
                if way is together:
                    cpu[speculate].append(per_cpu)
                    equal[speculate] += sum(
                        a == b for a, b in zip(answers, alone[speculate], strict=False)
                    )
        for speculate, name in ((True, "dflash"), (False, "plain")):
            seen = rates[together, speculate]
            yield {
                "requests": count,
                "decoding": name,
                "tokens_per_s": round(statistics.median(seen), 1),
                "over_turn_by_turn": over(seen, rates[turn_by_turn, speculate]),
                "over_plain": over(seen, rates[together, False]),
                "cpu_over_plain": over(cpu[speculate], cpu[False]),
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
    parser.add_argument("--always", action="store_true", help="draft also where it does not pay")
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
        load_target(options.target, dtype=options.dtype),
        load_draft(options.draft),
        adaptive=not options.always,
    )
    sampling = Sampling(options.tokens, stop_token_ids=frozenset({tokenizer.eos_token_id}))
    for row in measure(decoder, prompts, sampling, options):
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
