from __future__ import annotations

import pytest

from dflash_deploy.launch.phases import phase_of


@pytest.mark.parametrize(
    ("line", "phase"),
    [
        (
            "INFO [gpu_model_runner.py:2602] Starting to load model Qwen/Qwen3-8B...",
            "loading weights",
        ),
        ("Loading safetensors checkpoint shards:  50% Completed | 1/2", "loading weights"),
        ("[TP0] Load weight begin. avail mem=78.42 GB", "loading weights"),
        ("Using cache directory: /c/torch_compile_cache/d8 for vLLM's torch.compile", "compiling"),
        ("[TP0] KV Cache is allocated. #tokens: 383872", "reserving the KV cache"),
        ("Capturing CUDA graphs (decode, FULL):  12%", "capturing CUDA graphs"),
        ("Capturing batches (bs=4 avail_mem=51.60 GB):   0%", "capturing CUDA graphs"),
        ("INFO:     Started server process [4241]", "starting the server"),
        ("loading draft /weights/draft", "loading the draft"),
        ("INFO: 127.0.0.1 - GET /health 200 OK", None),
    ],
)
def test_a_line_says_how_far_the_engine_is(line: str, phase: str | None) -> None:
    assert phase_of(line) == phase
