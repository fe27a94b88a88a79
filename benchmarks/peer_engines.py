"""One engine of `peers.py` in a process of its own: prompts in, answers and seconds out.

A line of stdin is {"ids": [...], "tokens": N}; a line of stdout {"ids": [...], "seconds": S,
"cycles": N}, the time of the whole request, prompt included. Greedy, one dtype, one thread count
for all. `cycles` are the target's passes behind the prompt, or null where an engine hides them.
"""

import argparse
import json
import sys
import time

import torch
from peer_models import hub_target, our_draft, our_target, stop_token, z_lab_draft

LOOKED_UP = 10
"""Draft tokens that prompt lookup takes behind a match: what its documentation shows."""


def generating(options, stop, **more):
    """`transformers.generate`, with or without its n-gram assistance."""
    model = hub_target(options)
    if options.noise:
        model.generation_config.eos_token_id = None

    def answer(ids, count):
        row = torch.tensor([ids], device=options.device)
        out = model.generate(
            row, attention_mask=torch.ones_like(row), max_new_tokens=count, do_sample=False,
            eos_token_id=stop, pad_token_id=stop or 0, **more,
        )  # fmt: skip
        said = out[0, len(ids) :].tolist()
        return said, None if more else len(said) - 1

    return answer


def z_lab(options, stop):
    """The loop of the package `dflash`, from the folder that `--peer-path` names."""
    sys.path.insert(0, options.peer_path)
    from dflash.model import DFlashDraftModel, dflash_generate

    model = hub_target(options)
    draft = z_lab_draft(options, DFlashDraftModel)
    stops = None if stop is None else [stop]
    # its counts come with a wait for the card, which a CPU does not have
    counted = options.device != "cpu"

    def answer(ids, count):
        row = torch.tensor([ids], device=options.device)
        with torch.inference_mode():
            out = dflash_generate(draft, model, row, count, stops, return_stats=counted)
        row = out.output_ids if counted else out
        return row[0, len(ids) :].tolist(), len(out.acceptance_lengths) if counted else None

    return answer


def ours(options, stop, *, draft=True, speculate=True):
    from dflash_deploy.speculative import SpeculativeDecoder
    from dflash_deploy.speculative.types import Sampling

    target = our_target(options)
    decoder = SpeculativeDecoder(target, our_draft(options) if draft else None, adaptive=True)
    stops = frozenset(() if stop is None else (stop,))

    def answer(ids, count):
        sampling = Sampling(count, stop_token_ids=stops)
        steps = list(decoder.generate(ids, sampling, speculate=speculate))
        return [token for step in steps for token in step.tokens], len(steps) - 1

    return answer


ENGINES = {
    "dflash": ours,
    "plain": lambda options, stop: ours(options, stop, draft=False),
    # plainly beside the draft, in passes as wide as a verification: the same roundings
    "same path": lambda options, stop: ours(options, stop, speculate=False),
    "transformers": generating,
    "prompt lookup": lambda options, stop: generating(
        options, stop, prompt_lookup_num_tokens=LOOKED_UP
    ),
    "z-lab": z_lab,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("target")
    parser.add_argument("draft")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--peer-path", default="")
    parser.add_argument("--noise", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    # it plans anew for each length, which a growing cache has at each step: slow for all of them
    torch.backends.cuda.enable_cudnn_sdp(False)
    said = sys.stdout
    sys.stdout = sys.stderr  # what a library prints is no answer
    stop = stop_token(options)
    answer = ENGINES[options.engine](options, stop)
    say(said, ready=True)
    for line in sys.stdin:
        asked = json.loads(line)
        start = time.perf_counter()
        ids, cycles = answer(asked["ids"], asked["tokens"])
        if options.device != "cpu":
            torch.cuda.synchronize()
        say(said, ids=ids, seconds=time.perf_counter() - start, cycles=cycles)


def say(stream, **news):
    print(json.dumps(news), file=stream, flush=True)


if __name__ == "__main__":
    main()
