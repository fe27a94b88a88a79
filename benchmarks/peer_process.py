"""A process of `peer_engines.py`, seen from `peers.py`."""

import pathlib
import sys

from line_process import LineProcess

WORKER = pathlib.Path(__file__).with_name("peer_engines.py")


class Engine(LineProcess):
    """One engine that loads its weights and then answers."""

    def __init__(self, name, options, target, draft, noise):
        words = [sys.executable, WORKER, name, target, draft]
        words += ["--device", options.device, "--dtype", options.dtype]
        words += ["--threads", str(options.threads), "--peer-path", options.peer_path]
        super().__init__(name, [*words, *(["--noise"] if noise else [])])

    @classmethod
    def start_all(cls, names, options, target, draft, *, noise=False):
        """Real weights are loaded at once; noise in turn, since a load needs twice its memory."""
        engines = []
        for name in names:
            engines.append(cls(name, options, target, draft, noise))
            if noise and not engines[-1].started():
                engines.pop()
        return engines if noise else [engine for engine in engines if engine.started()]

    def started(self):
        """Whether it is ready: one that does not load here is left out, and the others go on."""
        try:
            self.read()
        except SystemExit as end:
            print(end, file=sys.stderr)
            return False
        return True

    def answer(self, ids, tokens):
        return self.ask({"ids": ids, "tokens": tokens})
