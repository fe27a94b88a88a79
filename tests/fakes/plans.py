"""Plans for fake engines: as the engine adapters write them, without a registry."""

from __future__ import annotations

import json
import socket
from typing import Any

from dflash_deploy.plan import Plan, Secret, WeightsRef
from dflash_deploy.schema import EngineName

TARGET, DRAFT = "Qwen/Qwen3-4B", "z-lab/Qwen3-4B-DFlash-b16"


def free_port(host: str = "127.0.0.1") -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def plan(
    engine: EngineName = "vllm",
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    api_key_env: str | None = None,
    extra: tuple[str, ...] = (),
    **changes: Any,
) -> Plan:
    port = port or free_port(host)
    at = ("--host", host, "--port", str(port))
    config = json.dumps({"method": "dflash", "model": DRAFT, "num_speculative_tokens": 15})
    if engine == "vllm":
        argv = ("vllm", "serve", TARGET, "--served-model-name", TARGET, "qwen3-4b", *at)
        argv += ("--speculative-config", config)
        key_env = "VLLM_API_KEY"
    else:
        argv = ("sglang", "serve", "--model-path", TARGET, *at, "--enable-metrics")
        argv += ("--speculative-algorithm", "DFLASH", "--speculative-draft-model-path", DRAFT)
        argv += ("--speculative-num-draft-tokens", "16")
        key_env = ""
    values: dict[str, Any] = {
        "model": TARGET,
        "target": WeightsRef(TARGET, None, "bf16", None),
        "draft": WeightsRef(DRAFT, None, "bf16", None),
        "draft_kind": "dflash",
        "block_size": 16,
        "engine": engine,
        "version": "0.33.0" if engine == "vllm" else "0.5.23",
        "status": "published",
        "argv": (*argv, *extra),
        "env": {"DO_NOT_TRACK": "1"},
        "secrets": (Secret(key_env, api_key_env),) if api_key_env else (),
        "host": host,
        "port": port,
        "served_names": (TARGET,),
        "health_path": "/health",
        "thinking": "off",
        "thinking_key": "enable_thinking",
        "context": 8192,
        "concurrency": 32,
        "tensor_parallel": 1,
    }
    return Plan(**{**values, **changes})
