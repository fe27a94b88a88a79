"""Bounds that a release checks after its parser took the word, known by how it refuses the rest.

A release whose source has not these words has not the check: its flag gets no bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

PLACES = {
    "vllm": ("config/*.py", "engine/arg_utils.py", "entrypoints/**/cli_args.py"),
    "sglang": ("srt/server_args.py", "srt/arg_groups/*.py"),
}
"""Where an engine checks its settings, in its package."""
POSITIVE, NOT_NEGATIVE, SHARE = {"least": 1}, {"least": 0}, {"above": 0, "most": 1}


class Checks(NamedTuple):
    bounds: dict[str, Any]
    words: dict[str, str]
    """How a release refuses what is out of these bounds, by flag."""


CHECKS = {
    "vllm": (
        Checks(NOT_NEGATIVE, {
            "--sse-keep-alive-interval": "--sse-keep-alive-interval must be a non-",
        }),
        Checks(POSITIVE, {
            "--max-cudagraph-capture-size": "size should be greater than or equal to 1",
        }),
    ),
    "sglang": (
        Checks({"least": 1, "most": 65535}, {
            "--grpc-port": "must be between 1 and 65535",
        }),
        Checks(POSITIVE, {
            "--grpc-response-timeout-secs": "--grpc-response-timeout-secs must be pos",
            "--dcp-size": "Decode context parallel size (--dcp-size",
            "--attn-dp-size": "--attn-dp-size must be positive",
            "--cuda-graph-prefill-max-context": "--cuda-graph-prefill-max-context must",
            "--asr-max-buffer-seconds": "--asr-max-buffer-seconds must be positive",
            "--asr-max-concurrent-sessions": "--asr-max-concurrent-sessions must be",
            "--pp-max-micro-batch-size": "pp_max_micro_batch_size must be a positive",
            "--gpu-id-step": "gpu_id_step must be positive",
            "--tokenizer-worker-num": "Tokenizer worker num must >= 1",
            "--detokenizer-worker-num": "Detokenizer worker num must >= 1",
            "--sampling-mask-max-tokens": "--sampling-mask-max-tokens must be positive",
            "--max-loras-per-batch": "max_loras_per_batch must be positive",
            "--pp-size": "DFLASH speculative decoding only supports pp_size == 1",
            "--page-size": "chunked_prefill_size must be divisible by page_size",
        }),
        Checks(SHARE, {
            "--hicache-host-memory-fraction": "--hicache-host-memory-fraction must be",
            "--swa-full-tokens-ratio": "--swa-full-tokens-ratio should be in range (0",
        }),
        Checks(NOT_NEGATIVE, {
            "--swa-prefix-tails": "--swa-prefix-tails should be a non-negative",
            "--mm-preprocess-cache-size-mb": "mm_preprocess_cache_size_mb must be",
            "--media-url-max-file-size-mb": "media_url_max_file_size_mb must be",
            "--base-gpu-id": "base_gpu_id must be non-negative",
            "--mm-processor-worker-num": "processor worker num must >= 0",
            "--mm-io-worker-num": "I/O worker num must >= 0",
            "--schedule-conservativeness": "schedule_conservativeness must be non",
            "--prefill-decode-interval": "--prefill-decode-interval must be non",
            "--prefill-decode-interval-min-bs": "--prefill-decode-interval-min-bs must",
            "--speculative-draft-sink-size": "--speculative-draft-sink-size must be",
            "--mamba-cache-philox-rounds": "--mamba-cache-philox-rounds must be non",
        }),
        Checks({"least": 1, "choices": ["-1"]}, {
            "--mamba-max-states-per-path": "--mamba-max-states-per-path must be -1",
        }),
    ),
}  # fmt: skip


def bounds(engine: str, package: Path) -> dict[str, dict[str, Any]]:
    """What the release in this folder checks, by flag."""
    text = "\n".join(_sources(package, PLACES[engine]))
    return {
        flag: checks.bounds
        for checks in CHECKS[engine]
        for flag, words in checks.words.items()
        if words in text
    }


def bounded(row: dict[str, Any], later: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """A flag's row with what is checked later, where its words are numbers."""
    found = later.get(row["name"], {}) if row.get("kind") in ("integer", "size", "number") else {}
    return row | {name: value for name, value in found.items() if name not in row}


def _sources(package: Path, places: tuple[str, ...]) -> Iterator[str]:
    for place in places:
        for path in sorted(package.glob(place)):
            yield path.read_text(encoding="utf-8")
