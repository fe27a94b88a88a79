"""What the load generator itself costs: CPU time of its process for each chunk it reads.

    python benchmarks/load_client.py [--concurrency 64] [--requests 256] [--tokens 256]

A server process streams chunks as fast as they are taken, so that the client is never idle: chunks
a second of CPU time are the most it can read on one core.
"""

import argparse
import asyncio
import json
import multiprocessing
import platform
import resource
import socket
import time

from dflash_deploy.measure.load import Ask, closed_loop
from dflash_deploy.measure.sample import Sample, run_of
from dflash_deploy.plan import Endpoint

PAUSE = 0.002


def event(**fields):
    kind = "chat.completion.chunk"
    document = {"id": "chatcmpl-1", "object": kind, "created": 1, "model": "m", **fields}
    data = b"data: " + json.dumps(document).encode() + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(data), data)


async def next_head(reader):
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None  # the client is done


def serve(listener, tokens):
    """HTTP/1.1 with nothing in it but the answer."""
    usage = {"prompt_tokens": 9, "completion_tokens": tokens}
    delta = {"index": 0, "delta": {"content": " fox"}, "finish_reason": None}
    piece, last = event(choices=[delta]), event(choices=[], usage=usage)
    head = (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    end = last + b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"

    async def answer(reader, writer):
        while asked := await next_head(reader):
            length = int(asked.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            writer.write(head)
            for _ in range(tokens):
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(PAUSE)  # each chunk is read by itself, as from an engine
            writer.write(end)

    async def run():
        async with await asyncio.start_server(answer, sock=listener) as server:
            await server.serve_forever()

    asyncio.run(run())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--requests", type=int, default=256)
    parser.add_argument("--tokens", type=int, default=256)
    args = parser.parse_args()
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    server = multiprocessing.Process(target=serve, args=(listener, args.tokens), daemon=True)
    server.start()
    endpoint = Endpoint(f"http://127.0.0.1:{listener.getsockname()[1]}", "m", "vllm")
    body = json.dumps({"model": "m", "messages": [], "stream": True}).encode()
    asks = [Ask("/v1/chat/completions", body)] * args.requests
    closed_loop(endpoint, asks[: args.concurrency], args.concurrency)
    before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    answers, seconds = closed_loop(endpoint, asks, args.concurrency)
    after, wall = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter() - began
    server.terminate()
    run = run_of(Sample(answers=tuple(answers), seconds=seconds))
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    chunks = args.requests * args.tokens
    print(f"Python {platform.python_version()}, {args.concurrency} in flight, {run.failed} failed")
    print(
        f"{chunks} chunks in {wall:.1f} s: {chunks / wall:.0f}/s, {100 * cpu / wall:.0f}% of a core"
    )
    print(
        f"{1e6 * cpu / chunks:.0f} us of CPU a chunk: at most {chunks / cpu:.0f} chunks/s on a core"
    )


if __name__ == "__main__":
    main()
