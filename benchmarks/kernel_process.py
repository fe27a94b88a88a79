"""A process of `kernel_worker.py`, seen from `kernels.py`."""

import json
import os
import pathlib
import subprocess
import sys

WORKER = pathlib.Path(__file__).with_name("kernel_worker.py")
# each is the module `kernels_<name>.py`
LIBRARIES = ("torch", "torchao", "onnxruntime", "openvino")
# what the embedded server sets for itself
SETTINGS = {"GOMP_SPINCOUNT": "10000", "THP_MEM_ALLOC_ENABLE": "1"}


class Library:
    """One library that packs its weights and then computes steps when it is asked."""

    def __init__(self, name, target, inputs, threads):
        self.name, self.version, self.kernels = name, None, []
        self._process = subprocess.Popen(
            [sys.executable, WORKER, name, target, inputs, str(threads)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | SETTINGS,
        )  # fmt: skip

    def started(self):
        """Whether it is ready; what is missing, or does not work here, is said."""
        line = self._process.stdout.readline()
        ready = json.loads(line) if line else {"missing": f"{self.name}: ended while it started"}
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
        return self._ask({"step": kernel, "rows": rows})

    def check(self, kernel):
        """{"difference": ..., "error": ...}"""
        return self._ask({"check": kernel})

    def _ask(self, question):
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} ended with exit code {self._process.wait()}")
        return json.loads(line)

    def end(self):
        self._process.stdin.close()
        self._process.wait()
