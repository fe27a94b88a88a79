"""A process of `kernel_worker.py`, seen from `kernels.py`."""

import os
import pathlib
import sys

from line_process import LineProcess

WORKER = pathlib.Path(__file__).with_name("kernel_worker.py")
# each is the module `kernels_<name>.py`
LIBRARIES = ("torch", "torchao", "onnxruntime", "openvino")
# what the embedded server sets for itself
SETTINGS = {"GOMP_SPINCOUNT": "10000", "THP_MEM_ALLOC_ENABLE": "1"}


class Library(LineProcess):
    """One library that packs its weights and then computes steps when it is asked."""

    def __init__(self, name, target, inputs, threads):
        words = [sys.executable, WORKER, name, target, inputs, str(threads)]
        super().__init__(name, words, env=os.environ | SETTINGS)
        self.version, self.kernels = None, []

    def started(self):
        """Whether it is ready; what is missing, or does not work here, is said."""
        try:
            ready = self.read()
        except SystemExit as end:
            ready = {"missing": f"{end} while it started"}
        if missing := ready.get("missing"):
            print(f"left out: {missing}", file=sys.stderr)
            self.end()
            return False
        for name, why in ready["failed"].items():
            print(f"left out: {name}: {why}", file=sys.stderr)
        self.version, self.kernels = ready["version"], ready["kernels"]
        return True

    def step(self, kernel, rows):
        """{shape: [cpu seconds, wall seconds]} of one step."""
        return self.ask({"step": kernel, "rows": rows})

    def check(self, kernel):
        """{"difference": ..., "error": ...}"""
        return self.ask({"check": kernel})
