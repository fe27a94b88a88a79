"""One engine of `peers.py` in a process of its own: prompts in, answers and seconds out.

A line of stdin is {"ids": [...], "tokens": N}; a line of stdout {"ids": [...], "seconds": S},
the time of the whole request, prompt included. Greedy, one dtype, one thread count for all.
"""

import argparse
import json
import sys
import time

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

LOOKED_UP = 10
"""Draft tokens that prompt lookup takes behind a match: what its documentation shows."""


def hub_model(options):
    model = AutoModelForCausalLM.from_pretrained(options.target, dtype=options.dtype)
    return model.eval().to(options.device)


def generating(options, stop, **more):
    """`transformers.generate`, with or without its n-gram assistance."""
    model = hub_model(options)

    def answer(ids, count):
        row = torch.tensor([ids], device=options.device)
        out = model.generate(
            row, attention_mask=torch.ones_like(row), max_new_tokens=count, do_sample=False,
            eos_token_id=stop, pad_token_id=stop, **more,
        )  # fmt: skip
        return out[0, len(ids) :].tolist()

    return answer


def z_lab(options, stop):
    """The loop of the package `dflash`, from the folder that `--peer-path` names."""
    sys.path.insert(0, options.peer_path)
    from dflash.model import DFlashDraftModel, dflash_generate

    model = hub_model(options)
    draft = DFlashDraftModel.from_pretrained(
        options.draft, dtype=options.dtype, attn_implementation="sdpa"
    )
    draft = draft.eval().to(options.device)

    def answer(ids, count):
        row = torch.tensor([ids], device=options.device)
        with torch.inference_mode():
            out = dflash_generate(draft, model, row, count, [stop])
        return out[0, len(ids) :].tolist()

    return answer


def ours(options, stop, *, speculate):
    from dflash_deploy.speculative import SpeculativeDecoder, load_draft, load_target
    from dflash_deploy.speculative.types import Sampling

    target = load_target(options.target, dtype=options.dtype, device=options.device)
    decoder = SpeculativeDecoder(target, load_draft(options.draft))

    def answer(ids, count):
        sampling = Sampling(count, stop_token_ids=frozenset({stop}))
        steps = decoder.generate(ids, sampling, speculate=speculate)
        return [token for step in steps for token in step.tokens]

    return answer


ENGINES = {
    "dflash": lambda options, stop: ours(options, stop, speculate=True),
    "plain": lambda options, stop: ours(options, stop, speculate=False),
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
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    stop = AutoTokenizer.from_pretrained(options.target).eos_token_id
    answer = ENGINES[options.engine](options, stop)
    said = sys.stdout
    sys.stdout = sys.stderr  # what a library prints is no answer
    for line in sys.stdin:
        asked = json.loads(line)
        start = time.perf_counter()
        ids = answer(asked["ids"], asked["tokens"])
        if options.device != "cpu":
            torch.cuda.synchronize()
        print(
            json.dumps({"ids": ids, "seconds": time.perf_counter() - start}), file=said, flush=True
        )


if __name__ == "__main__":
    main()
