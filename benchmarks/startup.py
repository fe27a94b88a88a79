"""CPU time of the commands a user waits for: `--version`, `--help`, `list`.

    python benchmarks/startup.py [--runs 15]

User plus system time of the whole process, the median of several runs, commands interleaved so
that a busy moment of the machine falls on all of them. Budgets: 40, 120 and 200 ms.
"""

import argparse
import platform
import resource
import statistics
import subprocess
import sys

COMMANDS = {"--version": 40, "--help": 120, "list": 200}


def cpu_ms(argv):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


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


if __name__ == "__main__":
    main()
