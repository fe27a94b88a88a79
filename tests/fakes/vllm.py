"""`vllm serve`: the flags, log lines, endpoints and counters of vLLM, without vLLM."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from typing import Any

from tests.fakes.arguments import Flag, parser
from tests.fakes.exposition import TPOT, TTFT, Labels, family, histogram
from tests.fakes.knobs import Knobs, release
from tests.fakes.lifecycle import SHARDS, begin, crash, log, recorded, start_up
from tests.fakes.openai import Handler, HTTPServer, Server

FLAGS = (
    Flag("--model"), Flag("--served-model-name", "+"), Flag("--host"), Flag("--port"),
    Flag("--api-key", "+"), Flag("--revision"), Flag("--speculative-config"),
    Flag("--tensor-parallel-size"), Flag("--max-model-len"), Flag("--max-num-seqs"),
    Flag("--max-num-batched-tokens"), Flag("--attention-backend"), Flag("--kv-cache-dtype"),
    Flag("--gpu-memory-utilization"), Flag("--default-chat-template-kwargs"),
    Flag("--reasoning-parser"), Flag("--enable-auto-tool-choice", "0"), Flag("--tool-call-parser"),
    Flag("--trust-remote-code", "0"), Flag("--dtype"), Flag("--load-format"), Flag("--config"),
    Flag("--enable-prefix-caching", "0"), Flag("--no-enable-prefix-caching", "0"),
    Flag("--disable-prefix-caching", "0", since="0.33.0"),
    Flag("--per-request-spec-decode-metrics", since="0.30.0"),
    Flag("--language-model-only", "0"), Flag("--moe-backend"), Flag("--enforce-eager", "0"),
    Flag("--nnodes"), Flag("--node-rank"), Flag("--master-addr"), Flag("--headless", "0"),
)  # fmt: skip
MOST_LOGPROBS = 20
"""Without --max-logprobs."""


class VllmHandler(Handler):
    def known_model(self, model: object) -> bool:
        return model in self.state.served

    def refuse(self, body: dict[str, Any]) -> str | None:
        if self.state.block_size and (body.get("min_p") or body.get("logit_bias")):
            return "min_p and logit_bias are not supported with speculative decoding."
        if int(body.get("top_logprobs") or 0) > MOST_LOGPROBS:
            return f"Requested logprobs of {body['top_logprobs']}, more than {MOST_LOGPROBS}."
        return super().refuse(body)

    def get(self, path: str) -> bool:
        if path == "/health":
            self.reply(503 if self.state.dead else 200, "")
        elif path == "/version":
            self.reply(200, {"version": self.state.knobs.version})
        elif path == "/metrics" and self.state.knobs.metrics:
            self.reply(200, metrics(self.state))
        else:
            return False
        return True

    per_request = False

    def decorate(
        self, answer: dict[str, Any], body: dict[str, Any], drafts: int, tokens: int
    ) -> None:
        if not self.per_request or not drafts:
            return
        answer["metrics"] = {
            "speculative_decoding": {
                "mean_acceptance_length": tokens / drafts,
                "num_spec_steps": drafts,
                "num_accepted_draft_tokens": tokens - drafts,
                "num_draft_tokens": drafts * ((self.state.block_size or 1) - 1),
            }
        }


def metrics(state: Server) -> str:
    """The exposition as prometheus_client writes it, spread over two data-parallel ranks."""
    name = state.served[0]
    first, second = {"engine": "0", "model_name": name}, {"engine": "1", "model_name": name}
    families = [
        f"process_start_time_seconds {state.began}\n",
        family("vllm:num_requests_running", "gauge", (first, 0)),
        family("vllm:num_requests_waiting", "gauge", (first, 0)),
        family("vllm:kv_cache_usage_perc", "gauge", (first, state.knobs.kv_usage)),
        family("vllm:generation_tokens", "counter", *_shared(state.tokens, first, second)),
        histogram("vllm:time_to_first_token_seconds", first, TTFT, state.answers),
        histogram("vllm:request_time_per_output_token_seconds", first, TPOT, state.answers),
        family("vllm:prefix_cache_hits", "counter", (first, state.cached)),
    ]
    if state.block_size is None:
        return "".join(families)
    per_draft = state.block_size - 1
    counters = {
        "num_drafts": state.drafts,
        "num_draft_tokens": state.drafts * per_draft,
        "num_accepted_tokens": state.accepted,
    }
    for counter, value in counters.items():
        shares = _shared(value, first, second)
        families.append(family(f"vllm:spec_decode_{counter}", "counter", *shares))
    left, places = state.accepted, []
    for position in range(per_draft):
        value = min(left, state.drafts)
        left -= value
        places.append((first | {"position": str(position)}, value))
    families.append(family("vllm:spec_decode_num_accepted_tokens_per_pos", "counter", *places))
    return "".join(families)


def _shared(value: int, first: Labels, second: Labels) -> tuple[tuple[Labels, float], ...]:
    return (first, value - value // 3), (second, value // 3)


def main(argv: list[str]) -> int:
    knobs = Knobs.read()
    if argv == ["--version"]:
        if knobs.broken_version:
            sys.stderr.write(
                "Traceback (most recent call last):\n"
                "ImportError: libcudart.so.13: cannot open shared object file\n"
            )
            return 1
        print(knobs.version)
        return 0
    if argv[:1] != ["serve"]:
        sys.stderr.write(f"vllm: error: argument subparser: invalid choice: {argv[:1]}\n")
        return 2
    made = parser("vllm serve", FLAGS, knobs.version)
    made.add_argument("model_tag", nargs="?")
    args = made.parse_args(argv[1:])
    model = args.model_tag or args.model or "Qwen/Qwen3-0.6B"
    block = _block_size(args.speculative_config)
    begin(knobs, argv)
    if block and block == knobs.crash_block:
        crash(knobs)
    host, port = args.host or "0.0.0.0", int(args.port or 8000)
    state = Server("vllm", knobs, tuple(args.served_model_name or [model]), block, _key(args))
    state.schedule = _schedule(args.speculative_config)
    state.context = int(args.max_model_len or 0) or None
    handler = type("Bound", (VllmHandler,), {
        "state": state,
        "reasoning_key": "reasoning" if release(knobs.version) >= (0, 22) else "reasoning_content",
        "per_request": getattr(args, "per_request_spec_decode_metrics", None) is not None,
    })  # fmt: skip

    # the engine is built before the port is opened: until then connections are refused
    def serve() -> None:
        HTTPServer.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        server = HTTPServer((host.strip("[]"), port), handler)
        log("INFO:     Application startup complete.")
        threading.Thread(target=server.serve_forever, args=[0.05], daemon=True).start()

    start_up(knobs, _lines(model, block), serve)
    while True:
        time.sleep(3600)


def _block_size(config: str | None) -> int | None:
    if config is None:
        return None
    wanted = json.loads(config)
    if "num_speculative_tokens" not in wanted:
        sys.stderr.write(
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for SpeculativeConfig\n"
            "  Value error, A speculative model was provided, but `num_speculative_tokens` was not"
            " provided\n"
        )
        raise SystemExit(1)
    return int(wanted["num_speculative_tokens"]) + 1


def _schedule(config: str | None) -> tuple[tuple[int, int, int], ...]:
    said = json.loads(config or "{}").get("num_speculative_tokens_per_batch_size", [])
    return tuple(sorted((first, last, tokens) for first, last, tokens in said))


def _key(args: Any) -> str | None:
    return args.api_key[0] if args.api_key else os.environ.get("VLLM_API_KEY")


def _lines(model: str, block: int | None) -> list[str]:
    """A start of 0.26.0, with a checkpoint's bar where its weights were made up."""
    core = "(EngineCore pid=2015) INFO 11-28 09:30:16"
    said = recorded("vllm-0.26.0.log")
    loading = next(number for number, line in enumerate(said) if "Loading model" in line)
    drafter = [f"{core} [speculator.py:96] Loading drafter model..."] if block else []
    begun = f"(APIServer pid=1844) INFO 11-28 09:29:52 [api_utils.py:345] model   {model}"
    return [begun, *said[: loading + 1], *SHARDS, *drafter, *said[loading + 1 :]]
