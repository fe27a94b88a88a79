"""What both checks do: cases in, verdicts out, one JSON document a line.

Runs inside a release's environment, beside the check that uses it.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

Case = dict[str, Any]


def judge(case: Case, parse: Callable[[], Any], resolve: Callable[[Any], Any]) -> Case:
    """A verdict on one case; whatever the engine raises is its message."""
    verdict: Case = {
        "id": case["id"], "ok": False, "stage": "parser", "message": "", "resolved": {},
    }  # fmt: skip
    said = io.StringIO()
    before = dict(os.environ)
    try:
        os.environ.update(case.get("env") or {})
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            args = parse()
            if case.get("level") == "config":
                verdict["stage"] = "config"
                verdict["resolved"] = resolve(args)
        verdict["ok"] = True
    except SystemExit:
        verdict["message"] = "\n".join(said.getvalue().strip().splitlines()[-1:])
    except Exception as error:
        verdict["message"] = f"{type(error).__name__}: {str(error) or last_line(error)}"
        verdict["where"] = traceback.format_exc()[-2000:]
    finally:
        os.environ.clear()
        os.environ.update(before)
    return verdict


def last_line(error: Exception) -> str:
    """The line that raised: of an assertion without words, all there is to read."""
    return str(traceback.extract_tb(error.__traceback__)[-1].line)


def answer(make: Callable[[], Callable[[Case], Case]]) -> None:
    """Judge what comes on stdin; `make` imports the engine and gives what judges a case."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the engine prints is no verdict
    verdict_on = make()
    for line in sys.stdin:
        answers.write(json.dumps(verdict_on(json.loads(line)), default=str) + "\n")
        answers.flush()
