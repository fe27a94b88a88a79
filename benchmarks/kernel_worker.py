"""One library for `kernels.py`: reads questions from stdin and answers each in a line of JSON."""

import importlib
import json
import math
import statistics
import sys
import time

import torch
from kernel_inputs import matrices
from torch.nn import functional

WIDTHS = (*range(2, 17), 24, 32, 48)
# one layer in this many is checked: a kernel treats all layers alike
CHECKED = 10
# seconds of CPU for 8 rows: slower is out of the race, and would be most of the waiting
TOO_SLOW = 0.4


class Kernel:
    """Every product of a step, packed by one maker: weight [out, in] -> (rows -> product)."""

    def __init__(self, make, weights):
        self._products = [(shape, layer, make(weight)) for shape, layer, weight in weights]

    def step(self, inputs, rows):
        seen = {}
        for shape, layer, product in self._products:
            x = inputs[shape, layer][:rows]
            cpu, wall = time.process_time(), time.perf_counter()
            product(x)
            now, then = time.perf_counter(), time.process_time()
            before = seen.setdefault(shape, [0.0, 0.0])
            before[0] += then - cpu
            before[1] += now - wall
        return seen

    def check(self, inputs, weights):
        """The largest difference of a row together and alone, and the median relative error."""
        apart, errors = 0.0, []
        for (shape, layer, product), (_, _, weight) in zip(self._products, weights, strict=True):
            if layer % CHECKED:
                continue
            x = inputs[shape, layer]
            alone = torch.cat([product(row).float().clone() for row in x.split(1)])
            exact = functional.linear(x, weight)
            size = exact.pow(2).mean().sqrt().item()
            for width in WIDTHS:
                together = product(x[:width]).float()
                apart = max(apart, (together - alone[:width]).abs().max().item() / size)
            errors.append((alone - exact).norm().item() / exact.norm().item())
        error = statistics.median(errors)
        # JSON has no word for it: a kernel that gives no numbers is infinitely wrong
        return {"difference": apart, "error": error if math.isfinite(error) else 1e9}


def ready(library, weights, inputs, threads):
    """The library's kernels that work here and are not hopeless, and why the others are missing."""
    kernels, failed = {}, {}
    for name, make in library.kernels(threads).items():
        try:
            kernel = Kernel(make, weights)
            kernel.step(inputs, 8)
            took = sum(cpu for cpu, _ in kernel.step(inputs, 8).values())
        except Exception as error:  # noqa: BLE001 a library may raise anything at all
            failed[name] = f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200]}"
            continue
        if took > TOO_SLOW:
            failed[name] = f"8 rows take {1000 * took:.0f} ms"
        else:
            kernels[name] = kernel
    return kernels, failed


def say(answer):
    print(json.dumps(answer), flush=True)


@torch.inference_mode()
def main():
    name, target, inputs, threads = sys.argv[1:]
    torch.set_num_threads(int(threads))
    try:
        library = importlib.import_module(f"kernels_{name}")
    except ImportError as error:
        say({"missing": str(error)})
        return
    inputs, weights = torch.load(inputs), list(matrices(target))
    kernels, failed = ready(library, weights, inputs, int(threads))
    say({"version": library.VERSION, "kernels": list(kernels), "failed": failed})
    for line in sys.stdin:
        match json.loads(line):
            case {"step": kernel, "rows": rows}:
                kernels[kernel].step(inputs, rows)
                say(kernels[kernel].step(inputs, rows))
            case {"check": kernel}:
                say(kernels[kernel].check(inputs, weights))


if __name__ == "__main__":
    main()
