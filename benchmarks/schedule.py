"""A vLLM that drafts by the number of requests in a step: does it, and what does a pause cost?

    vllm serve TARGET_DIR --dtype float32 --port 8000 --speculative-config \
        '{"method": "dflash", "model": "DRAFT_DIR", "num_speculative_tokens": 7,
          "num_speculative_tokens_per_batch_size": [[1, 1, 7], [2, 2, 3], [3, 8, 0]]}'
    vllm serve TARGET_DIR --dtype float32 --port 8001
    python benchmarks/schedule.py TARGET_DIR --url http://127.0.0.1:8000 \
        --baseline-url http://127.0.0.1:8001 [--loads 1,2,3,4] [--crowd 2]

Greedy, as token numbers. First so many answers at once at each load: the server's counters while
all of them run. Then one answer alone, and once more with others beside it for a while: what its
steps bring afterwards, over the same tokens, tells whether the draft missed what was said while it
paused. Nobody else may ask either server meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys

import httpx
from acceptance import prompts
from engines import Server
from transformers import AutoTokenizer

PLACES = 7
LOADED, PAUSED, CROWD, BEGIN = 120, 240, 60, 40
"""Tokens of an answer at a load, of one that is paused, of those beside it; before they come."""


def main():
    options = parsed()
    try:
        there, plain = Server(options.url), Server(options.baseline_url)
    except httpx.HTTPError as error:
        raise SystemExit(f"{options.url}, {options.baseline_url}: {error}") from error
    asked = prompts(AutoTokenizer.from_pretrained(options.target), None, ["long-context"])
    result = asyncio.run(measured(options, there, plain, [ids for _, ids in asked]))
    print(json.dumps({"server": there.version, **result}, indent=1))


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target")
    parser.add_argument("--url", required=True)
    parser.add_argument("--baseline-url", required=True)
    parser.add_argument("--loads", default="1,2,3,4")
    parser.add_argument("--crowd", type=int, default=2, help="others beside the paused one")
    parser.add_argument("--limit", type=int, default=24, help="prompts that are paused")
    return parser.parse_args()


async def measured(options, there, plain, asked):
    async with httpx.AsyncClient(timeout=600) as client:
        loads, few = {}, asked[:8]
        streams = [Stream(client, plain, ids, LOADED, whole=True) for ids in few]
        said = [each.ids for each in await asyncio.gather(*(each.all() for each in streams))]
        for load in map(int, options.loads.split(",")):
            loads[load] = await at_load(client, there, few, said, load)
            print(load, loads[load], file=sys.stderr, flush=True)
        rows = []
        for number in range(options.limit):
            row = await paused(client, there, plain, asked, number, options.crowd)
            if row is not None:
                rows.append(row)
                print(json.dumps(row), file=sys.stderr, flush=True)
    return {"loads": loads, "paused": summed(rows), "rows": rows}


class Stream:
    """One answer; `steps` has the tokens of each."""

    def __init__(self, client, server, ids, tokens, *, whole=False):
        self._client, self._server, self.steps = client, server, []
        self._body = {"model": server.model, "prompt": ids, "max_tokens": tokens, "temperature": 0,
                      "ignore_eos": whole, "return_token_ids": True, "stream": True}  # fmt: skip

    async def all(self):
        url = f"{self._server.url}/v1/completions"
        async with self._client.stream("POST", url, json=self._body) as answer:
            answer.raise_for_status()
            async for line in answer.aiter_lines():
                choices = json.loads(line[6:])["choices"] if line.startswith("data: {") else []
                if choices and choices[0].get("token_ids"):
                    self.steps.append(choices[0]["token_ids"])
        return self

    @property
    def ids(self):
        return [token for step in self.steps for token in step]


async def at_load(client, there, asked, said, load):
    """Between the third step of the last and the last tokens of the first: all of them run."""
    total = dict.fromkeys(("drafts", "draft_tokens", "accepted_tokens", "steps"), 0)
    total |= {"by_place": [0] * PLACES, "answers": 0, "same_text": 0}
    for begin in range(0, len(asked) - load + 1, load):
        ids = asked[begin : begin + load]
        streams = [Stream(client, there, each, LOADED, whole=True) for each in ids]
        tasks = [asyncio.create_task(each.all()) for each in streams]
        await until(lambda: all(len(each.steps) > 2 for each in streams), tasks)  # noqa: B023
        before, steps = there.counted(), sum(len(each.steps) for each in streams)
        await until(lambda: any(len(each.ids) > LOADED - 20 for each in streams), tasks)  # noqa: B023
        after = there.counted()
        total["steps"] += sum(len(each.steps) for each in streams) - steps
        await asyncio.gather(*tasks)
        for name in ("drafts", "draft_tokens", "accepted_tokens"):
            total[name] += int(after[name] - before[name])
        for place in range(PLACES):
            total["by_place"][place] += int(after[place] - before[place])
        total["answers"] += load
        plain = said[begin : begin + load]
        total["same_text"] += sum(each.ids == own for each, own in zip(streams, plain, strict=True))
    return total


async def until(ready, tasks):
    while not ready() and not all(task.done() for task in tasks):  # noqa: ASYNC110 - by streams
        await asyncio.sleep(0.01)


async def paused(client, there, plain, asked, number, crowd):
    """None of an answer that is too short for it."""
    ids = asked[number]
    said = (await Stream(client, plain, ids, PAUSED).all()).ids
    if len(said) < BEGIN + CROWD + 60:
        return None
    alone = await Stream(client, there, ids, PAUSED).all()
    beside = [asked[(number + 7 * each) % len(asked)] for each in range(1, crowd + 1)]
    stream = Stream(client, there, ids, PAUSED)
    task = asyncio.create_task(stream.all())
    await until(lambda: len(stream.ids) >= BEGIN, [task])
    others = [Stream(client, there, each, CROWD, whole=True) for each in beside]
    running = [asyncio.create_task(each.all()) for each in others]
    await until(lambda: all(each.steps for each in others), running)
    begun = len(stream.steps)
    await asyncio.gather(*running)
    back = len(stream.steps) + 1  # the step that is under way drafted nothing yet
    await task
    came_back = sum(map(len, stream.steps[:back]))
    return {
        "tokens": len(said), "same_text": stream.ids == alone.ids == said,
        "paused_steps": back - begun, "paused_tokens": sum(map(len, stream.steps[begun:back])),
        "after": cycles(stream.steps, came_back, len(said) - PLACES - 1),
        "never_paused": cycles(alone.steps, came_back, len(said) - PLACES - 1),
    }  # fmt: skip


def cycles(steps, first, last):
    """Steps that lie within these tokens of the answer, and the tokens that they brought."""
    at = count = tokens = 0
    for step in map(len, steps):
        if at >= first and at + step <= last:
            count, tokens = count + 1, tokens + step
        at += step
    return [count, tokens]


def summed(rows):
    found = {"answers": len(rows), "same_text": sum(row["same_text"] for row in rows)}
    for name in ("paused_steps", "paused_tokens"):
        found[name] = sum(row[name] for row in rows)
    for name in ("after", "never_paused"):
        steps, tokens = (sum(row[name][at] for row in rows) for at in (0, 1))
        found[name] = {"steps": steps, "tokens_a_step": round(tokens / steps, 3) if steps else None}
    return found


if __name__ == "__main__":
    main()
