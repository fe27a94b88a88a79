"""Libraries for the products of the embedded engine's target on a CPU: speed, and the same rows.

    python -m venv --system-site-packages KERNELS
    KERNELS/bin/pip install torchao onnxruntime onnx openvino
    KERNELS/bin/python benchmarks/kernels.py TARGET_DIR [--threads 1 2] [--rounds 12] [--json FILE]

Run it where this project is installed with its `local` extra, or in an environment that sees the
packages of such a one. Each library is optional: what is not installed is said and left out.

A step is every product of one forward pass, with the target's own weights and with inputs that
its layers made of a text: no attention, no norms. So weights come from memory as they do in the
engine. Each library has a process of its own, and all kernels take turns, round by round, so that
a busy machine slows all alike; a step is timed right after one that is not. Times are lower
quartiles over the rounds; `--json` has medians and each shape by itself.

`same rows` is what a target needs to be lossless bit for bit: rows computed together equal the same
rows computed alone, for every width up to 16, and for 24, 32 and 48. Else: the largest difference,
in root mean squares of the product. `error` is the median over products of the relative error
against single precision.
"""

import argparse
import json
import pathlib
import statistics
import sys
import tempfile

import torch
from kernel_inputs import captured
from kernel_process import LIBRARIES, Library
from processor import processor

NOW = "mkl fp32"


def quartile(times):
    if len(times) == 1:
        return times[0]
    return statistics.quantiles(times, n=4, method="inclusive")[0]


def timed(libraries, rows, rounds):
    """{(kernel, rows): [{shape: [cpu, wall]}]}, all taking turns."""
    seen = {(name, n): [] for library in libraries for name in library.kernels for n in rows}
    for turn in range(rounds):
        for library in libraries:
            for name in library.kernels:
                for n in rows:
                    seen[name, n].append(library.step(name, n))
        print(f"round {turn + 1}/{rounds}", file=sys.stderr, flush=True)
    return seen


def told(name, check, seen, rows):
    """One kernel's line of the report."""
    times = {}
    for n in rows:
        steps = seen[name, n]
        sums = {"step": [[sum(col) for col in zip(*s.values(), strict=True)] for s in steps]}
        for shape in steps[0]:
            sums[shape] = [s[shape] for s in steps]
        times[n] = {
            shape: {
                f"{clock}_{kind}_ms": round(1000 * value([pair[at] for pair in pairs]), 4)
                for at, clock in enumerate(("cpu", "wall"))
                for kind, value in (("quartile", quartile), ("median", statistics.median))
            }
            for shape, pairs in sums.items()
        }
    return {"kernel": name, **check, "times": times}


def table(lines, rows, clock):
    """The steps in milliseconds, and against one row of the present path, in 80 columns."""
    key = f"{clock}_quartile_ms"
    base = next((line["times"][1]["step"][key] for line in lines if line["kernel"] == NOW), None)
    yield (
        f"{f'ms a step ({clock})':24}"
        + "".join(f"{n:>7}" for n in rows)
        + (f"{'x1':>7}{'x8':>6}  {'same rows':9}  error" if base else "")
    )
    for line in lines:
        steps = {n: line["times"][n]["step"][key] for n in rows}
        cells = "".join(f"{steps[n]:7.1f}" for n in rows)
        ratios = "".join(
            f"{base / steps[n]:{wide}.2f}" if base and n in steps else " " * wide
            for n, wide in ((1, 7), (8, 6))
        )
        same = "yes" if line["difference"] == 0 else f"{line['difference']:.0e}"
        yield f"{line['kernel']:24}{cells}{ratios}  {same:9}  {line['error']:.1e}"


def sweep(options, threads, inputs):
    """All libraries on this number of threads."""
    libraries = [Library(name, options.target, inputs, threads) for name in LIBRARIES]
    libraries = [library for library in libraries if library.started()]
    try:
        checks = {name: library.check(name) for library in libraries for name in library.kernels}
        seen = timed(libraries, options.rows, options.rounds)
    finally:
        for library in libraries:
            library.end()
    return {library.name: library.version for library in libraries}, [
        told(name, check, seen, options.rows) for name, check in checks.items()
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 4, 8, 16])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    report = {"machine": processor(), "threads": {}}
    with tempfile.NamedTemporaryFile(suffix=".pt") as inputs:
        torch.save(captured(options.target), inputs.name)
        for threads in options.threads:
            report["versions"], lines = sweep(options, threads, inputs.name)
            report["threads"][threads] = lines
            for clock in ("cpu", "wall"):
                print(f"\n{threads} thread{'s' * (threads > 1)}", flush=True)
                print("\n".join(table(lines, options.rows, clock)), flush=True)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
