"""A worker process that answers lines of JSON with lines of JSON, seen from who asks it."""

import json
import subprocess


class LineProcess:
    """Started at once; ends the benchmark with a line when it dies."""

    def __init__(self, name, words, **options):
        self.name = name
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options
        )

    def ask(self, question):
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return self.read()

    def read(self):
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} ended with exit code {self._process.wait()}")
        return json.loads(line)

    def end(self):
        self._process.stdin.close()
        self._process.wait()
