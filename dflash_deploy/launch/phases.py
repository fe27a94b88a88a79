"""How far an engine's start-up is, from its log lines: a word for the progress display."""

from __future__ import annotations

import re

# vLLM, SGLang, the embedded engine: the wording of the releases read; other lines say nothing
PHASES = (
    ("downloading weights", re.compile(r"Fetching \d+ files|Downloading .*safetensors")),
    (
        "loading weights",
        re.compile(
            r"Starting to load model|Loading \w+ checkpoint shards"
            r"|Load weight begin|^loading target"
        ),
    ),
    ("loading the draft", re.compile(r"Loading drafter model|^loading draft")),
    ("compiling", re.compile(r"torch_compile_cache|Dynamo bytecode|Compiling (a|num tokens)")),
    ("reserving the KV cache", re.compile(r"Available KV cache memory|KV Cache is allocated")),
    ("capturing CUDA graphs", re.compile(r"Capturing (CUDA graph|batches)|Capture cuda graph")),
    ("starting the server", re.compile(r"Started server process|Uvicorn running|fired up")),
)


def phase_of(line: str) -> str | None:
    """The phase a log line belongs to; None where it does not say."""
    return next((name for name, pattern in PHASES if pattern.search(line)), None)
