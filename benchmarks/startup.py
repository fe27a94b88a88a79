"""CPU time of the commands a user waits for: `--version`, `--help`, `list`.

    python benchmarks/startup.py [--runs 15]

User plus system time of the whole process, the median of several runs, commands interleaved so
that a busy moment of the machine falls on all of them. Budgets: 40, 120 and 200 ms; and half a
second from `dflash serve` to the engine's own first line.
"""

import argparse
import os
import pathlib
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time

COMMANDS = {"--version": 40, "--help": 120, "list": 200}


def cpu_ms(argv):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def until_exec(runs):
    """Seconds from `dflash serve` to the first line of a stand-in engine: what we add before it."""
    waits = []
    with tempfile.TemporaryDirectory() as folder:
        stamp = pathlib.Path(folder, "started")
        engine = pathlib.Path(folder, "vllm")
        engine.write_text(
            '#!/bin/sh\n[ "$1" = --version ] && echo 0.33.0 && exit 0\n'
            f"date +%s.%N > {stamp}\nexit 3\n"
        )
        engine.chmod(0o755)
        argv = [sys.executable, "-m", "dflash_deploy", "serve", "gpt-oss-20b", "--engine", "vllm"]
        env = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"}
        for _ in range(runs):
            began = time.time()
            subprocess.run([*argv, "--port", "18765"], env=env, capture_output=True, check=False)
            waits.append(float(stamp.read_text()) - began)
    return waits


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=15)
    runs = parser.parse_args().runs
    bare = [sys.executable, "-c", "pass"]
    argvs = {name: [sys.executable, "-m", "dflash_deploy", name] for name in COMMANDS}
    for argv in argvs.values():
        cpu_ms(argv)  # warm the disk and the bytecode
    times = {name: [] for name in ("python -c pass", *argvs)}
    for _ in range(runs):
        times["python -c pass"].append(cpu_ms(bare))
        for name, argv in argvs.items():
            times[name].append(cpu_ms(argv))
    print(f"{platform.machine()}, Python {platform.python_version()}, median of {runs} runs")
    for name, values in times.items():
        budget = f"  (budget {COMMANDS[name]})" if name in COMMANDS else ""
        print(f"{name:16} {statistics.median(values):6.1f} ms  min {min(values):6.1f}{budget}")
    waits = [1000 * seconds for seconds in until_exec(max(3, runs // 3))]
    print(f"serve to exec    {statistics.median(waits):6.1f} ms wall  (budget 500)")


if __name__ == "__main__":
    main()
