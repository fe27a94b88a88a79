"""`sglang serve` command lines, judged by SGLang's own parser and resolution, without a card.

Runs inside a release's environment (tools/engine_env.py): one JSON case a line on stdin, one
verdict a line on stdout. At level "config" a release that resolves its arguments in a step of its
own does so on a faked card; a target or draft is a folder with a config.json.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable
from typing import Any

from verdicts import Case, answer, judge


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
        asked = {*context._PLATFORM_PROBES, *context._PLATFORM_VALUES}
        said = facts(case.get("compute_capability", "9.0"))
        with context.override_platform(**{name: said[name] for name in said.keys() & asked}):
            made = self.server_args.from_cli_args(args)
            made.resolve_once()
            made.check_server_args()  # as the engine does before it loads anything
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


def judging() -> Callable[[Case], Case]:
    """What judges a case; whatever SGLang raises is its message."""
    release = Release()
    return lambda case: judge(
        case,
        lambda: release.parser.parse_args(case["argv"]),
        lambda args: release.resolve(args, case),
    )


if __name__ == "__main__":
    answer(judging)
