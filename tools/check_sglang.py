"""`sglang serve` command lines, judged by SGLang's own parser and resolution, without a card.

Runs inside a release's environment (tools/engine_env.py): one JSON case a line on stdin, one
verdict a line on stdout. At level "config" a release that resolves its arguments in a step of its
own does so on a faked card; a target or draft is a folder with a config.json.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import os
import sys
import traceback
from typing import Any


def facts(capability: str) -> dict[str, Any]:
    """What SGLang asks a platform, for a card of this compute capability."""
    major, _, minor = capability.partition(".")
    sm = int(major) * 10 + int(minor or 0)
    return {
        "is_cuda": True,
        "is_sm90": sm // 10 == 9,
        "is_sm100": sm // 10 == 10,
        "is_sm110": sm // 10 == 11,
        "is_sm120": sm // 10 == 12,
        "is_sm100_or_sm110": sm // 10 in (10, 11),
        "is_blackwell": sm // 10 in (10, 11, 12),
        "is_hopper_with_cuda_12_3": sm // 10 == 9,
        "has_flashinfer": True,
        "device_sm": sm,
        "device_capability": (sm // 10, sm % 10),
    }


class Release:
    """The parts of one installed SGLang that a check needs."""

    def __init__(self) -> None:
        importlib.import_module("stand_ins").stand_in()
        self.server_args = importlib.import_module("sglang.srt.server_args").ServerArgs
        self.parser = argparse.ArgumentParser(prog="sglang serve")
        self.server_args.add_cli_args(self.parser)

    def resolve(self, args: Any, case: dict[str, Any]) -> dict[str, Any]:
        """The arguments as SGLang completes and validates them, on the card of a case."""
        if not hasattr(self.server_args, "resolve_once"):
            raise TypeError("this release resolves its arguments only where it loads the model")
        context = importlib.import_module("sglang.srt.runtime_context")
        args.device = args.device or "cuda"
        with context.override_platform(**facts(case.get("compute_capability", "9.0"))):
            made = self.server_args.from_cli_args(args)
            made.resolve_once()
            return resolved(made.resolved_dict())


def resolved(known: dict[str, Any]) -> dict[str, Any]:
    """What the engine made of the command, in the words of this project."""
    words = {
        "attention_backend": "attention_backend",
        "prefill_attention_backend": "prefill_backend",
        "decode_attention_backend": "decode_backend",
        "speculative_draft_attention_backend": "draft_attention_backend",
        "speculative_algorithm": "algorithm",
        "speculative_num_draft_tokens": "block_size",
        "max_running_requests": "concurrency",
        "context_length": "context",
        "kv_cache_dtype": "kv_dtype",
        "page_size": "page_size",
        "tp_size": "tensor_parallel",
        "mamba_radix_cache_strategy": "recurrent_state_cache",
        "disable_overlap_schedule": "no_overlap",
    }
    return {name: known.get(field) for field, name in words.items()}


def judge(release: Release, case: dict[str, Any]) -> dict[str, Any]:
    """A verdict on one case; whatever SGLang raises is its message."""
    verdict: dict[str, Any] = {
        "id": case["id"], "ok": False, "stage": "parser", "message": "", "resolved": {},
    }  # fmt: skip
    said = io.StringIO()
    before = dict(os.environ)
    try:
        os.environ.update(case.get("env") or {})
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            args = release.parser.parse_args(case["argv"])
            if case.get("level") == "config":
                verdict["stage"] = "config"
                verdict["resolved"] = release.resolve(args, case)
        verdict["ok"] = True
    except SystemExit:
        verdict["message"] = "\n".join(said.getvalue().strip().splitlines()[-1:])
    except Exception as error:
        verdict["message"] = f"{type(error).__name__}: {error}"
        verdict["where"] = traceback.format_exc()[-2000:]
    finally:
        os.environ.clear()
        os.environ.update(before)
    return verdict


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the engine prints is no verdict
    release = Release()
    for line in sys.stdin:
        answers.write(json.dumps(judge(release, json.loads(line)), default=str) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
