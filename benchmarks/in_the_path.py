"""Two hundred clients on a launched server, and on the same server started by hand.

    python benchmarks/in_the_path.py [--clients 200] [--rounds 9]

The command line is not in the path of a request, so both must answer alike: a stand-in engine
(tests/fakes: threads, real HTTP) runs twice, once below `dflash serve --detach` and once alone with
the argv of `dflash plan`. Rounds alternate; the figure is the ratio of the medians of latency. The
last line is the one for docs/servers.md.
"""

import argparse
import asyncio
import json
import os
import pathlib
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import httpx

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from tests.fakes import install_fakes  # noqa: E402

MODEL = "gpt-oss-20b"
BODY = {
    "model": "openai/gpt-oss-20b",
    "messages": [{"role": "user", "content": "Name the planets."}],
    "max_tokens": 16,
}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def dflash(env, *words):
    argv = [sys.executable, "-m", "dflash_deploy", *words]
    return subprocess.run(
        argv, env=env, capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout


async def wait_for(url):
    async with httpx.AsyncClient() as client:
        for _ in range(200):
            try:
                if (await client.get(f"{url}/health")).status_code == 200:
                    return
            except httpx.HTTPError:
                await asyncio.sleep(0.1)
    raise SystemExit(f"{url} is not healthy")


async def latencies(url, clients):
    """Seconds of one request each, all sent at once."""
    limits = httpx.Limits(max_connections=clients)

    async def one(client):
        began = time.perf_counter()
        (await client.post("/v1/chat/completions", json=BODY)).raise_for_status()
        return time.perf_counter() - began

    async with httpx.AsyncClient(base_url=url, limits=limits, timeout=60) as client:
        return await asyncio.gather(*(one(client) for _ in range(clients)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        install_fakes(pathlib.Path(folder, "bin"))
        env = os.environ | {"PATH": f"{folder}/bin:{os.environ['PATH']}", "XDG_STATE_HOME": folder}
        env |= {"FAKE_ENGINE_ANSWER_DELAY": "0.05"}
        ports = free_port(), free_port()
        words = [MODEL, "--engine", "vllm", "--engine-version", "0.33.0"]
        plan = json.loads(dflash(env, "plan", *words, "--port", str(ports[1]), "--json"))
        dflash(env, "serve", MODEL, "--engine", "vllm", "--port", str(ports[0]), "--detach")
        alone = subprocess.Popen(
            plan["argv"], env=env | plan["env"], stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT
        )
        try:
            urls = {
                "launched": f"http://127.0.0.1:{ports[0]}",
                "alone": f"http://127.0.0.1:{ports[1]}",
            }
            seen = asyncio.run(rounds(urls, options))
        finally:
            alone.kill()
            dflash(env, "stop", f"{MODEL}-{ports[0]}")
    report(seen, options)


async def rounds(urls, options):
    seen = {name: [] for name in urls}
    for url in urls.values():
        await wait_for(url)
        await latencies(url, options.clients)  # warm
    for number in range(options.rounds):
        for name in sorted(urls, reverse=number % 2 == 1):
            seen[name].append(statistics.median(await latencies(urls[name], options.clients)))
    return seen


def report(seen, options):
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    print(f"{options.clients} clients at once, {options.rounds} rounds; median latency in ms")
    medians = {name: statistics.median(values) for name, values in seen.items()}
    for name, values in seen.items():
        low, high = 1000 * min(values), 1000 * max(values)
        print(f"{name:>9} {1000 * medians[name]:7.1f}   ({low:.1f} to {high:.1f})")
    ratio = medians["launched"] / medians["alone"]
    print(f"    ratio {ratio:7.3f}\n")
    print(
        f"- Not in the path of a request: {options.clients} clients at once wait"
        f" {1000 * medians['launched']:.0f} ms below `dflash serve` and"
        f" {1000 * medians['alone']:.0f} ms without it, ratio **{ratio:.2f}** (stand-in engine,"
        f" {os.cpu_count()} cores, {options.rounds} rounds, {time.strftime('%Y-%m-%d')},"
        " `benchmarks/in_the_path.py`)."
    )


if __name__ == "__main__":
    main()
