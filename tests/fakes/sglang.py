"""`sglang serve`: the flags, log lines, endpoints and gauges of SGLang, without SGLang."""

from __future__ import annotations

import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

from tests.fakes.arguments import Flag, parser
from tests.fakes.exposition import TPOT, TTFT, family, histogram
from tests.fakes.knobs import Knobs, release
from tests.fakes.lifecycle import SHARDS, begin, log, recorded, start_up
from tests.fakes.openai import Handler, HTTPServer, Server

FLAGS = (
    Flag("--model-path"), Flag("--served-model-name"), Flag("--host"), Flag("--port"),
    Flag("--api-key"), Flag("--config"), Flag("--revision"), Flag("--speculative-algorithm"),
    Flag("--speculative-draft-model-path"), Flag("--speculative-draft-model-revision"),
    Flag("--speculative-num-draft-tokens"), Flag("--speculative-draft-attention-backend"),
    Flag("--speculative-dflash-draft-window-size", until="0.5.20"),
    Flag("--attention-backend"), Flag("--tp-size"), Flag("--context-length"),
    Flag("--max-running-requests"), Flag("--mem-fraction-static"), Flag("--kv-cache-dtype"),
    Flag("--cuda-graph-max-bs", until="0.5.20"),
    Flag("--cuda-graph-max-bs-decode", since="0.5.14"),
    Flag("--cuda-graph-max-bs-prefill", since="0.5.14"),
    Flag("--mamba-scheduler-strategy", until="0.5.20"),
    Flag("--mamba-radix-cache-strategy", since="0.5.14"),
    Flag("--default-chat-template-kwargs", since="0.5.16"),
    Flag("--reasoning-parser"), Flag("--tool-call-parser"), Flag("--enable-metrics", "0"),
    Flag("--trust-remote-code", "0"), Flag("--page-size"), Flag("--chunked-prefill-size"),
    Flag("--mamba-ssm-dtype"), Flag("--dtype"), Flag("--disable-radix-cache", "0"),
    Flag("--load-format"), Flag("--speculative-num-steps"), Flag("--speculative-eagle-topk"),
)  # fmt: skip


class SglangHandler(Handler):
    args: dict[str, Any]
    reasoning_key = "reasoning_content"

    def refuse(self, body: dict[str, Any]) -> str | None:
        if body.get("return_meta_info") and body.get("stream"):
            return "return_meta_info is not supported with stream."
        without = (0, 5, 13) <= release(self.state.knobs.version) < (0, 5, 18)
        if body.get("logprobs") and self.state.block_size and without:
            return "return_logprob is not supported with DFLASH."
        return super().refuse(body)

    def get(self, path: str) -> bool:
        state = self.state
        if path in ("/health", "/health_generate"):
            # it generates a token, so it takes a while, and it answers before the model can
            time.sleep(state.knobs.health_delay)
            self.reply(200 if state.ready else 503, "")
        elif path in ("/server_info", "/get_server_info"):
            states = [{"avg_spec_accept_length": state.knobs.acceptance}]
            shown = {key: value for key, value in self.args.items() if key != "api_key"}
            self.reply(200, {**shown, "version": state.knobs.version, "internal_states": states})
        elif path == "/metrics" and self.args["enable_metrics"] and state.knobs.metrics:
            self.reply(200, metrics(state))
        else:
            return False
        return True

    def post(self, path: str, body: dict[str, Any]) -> bool:
        if path != "/generate":
            return False
        tokens = int((body.get("sampling_params") or {}).get("max_new_tokens", 16))
        drafts, _ = self.state.speculate(tokens)
        self.reply(200, {"text": " fox" * tokens, "meta_info": self._meta(drafts, tokens)})
        return True

    def decorate(
        self, answer: dict[str, Any], body: dict[str, Any], drafts: int, tokens: int
    ) -> None:
        version = release(self.state.knobs.version)
        if body.get("return_meta_info") and version >= (0, 5, 13):
            answer["choices"][0]["meta_info"] = self._meta(drafts, tokens)
        if body.get("return_spec_tokens_details") and version >= (0, 5, 19) and drafts:
            answer["sglext"] = {"spec_tokens_details": self._spec(drafts, tokens)}

    def _meta(self, drafts: int, tokens: int) -> dict[str, Any]:
        meta = {"id": "1", "completion_tokens": tokens, "prompt_tokens": 7}
        return meta | (self._spec(drafts, tokens) if drafts else {})

    def _spec(self, drafts: int, tokens: int) -> dict[str, Any]:
        proposed = drafts * ((self.state.block_size or 2) - 1)
        return {
            "spec_accept_rate": (tokens - drafts) / proposed,
            "spec_accept_length": tokens / drafts,
            "spec_verify_ct": drafts,
        }


def metrics(state: Server) -> str:
    name = state.served[0]
    rank = {"engine_type": "unified", "model_name": name, "tp_rank": "0"}
    request = {"is_streaming": "false", "model_name": name}
    families = [
        family("sglang:num_running_reqs", "gauge", (rank, 0)),
        family("sglang:num_queue_reqs", "gauge", (rank, 0)),
        family("sglang:token_usage", "gauge", (rank, state.knobs.kv_usage)),
        family("sglang:realtime_tokens", "counter",
               (rank | {"mode": "decode"}, state.tokens),
               (rank | {"mode": "prefill_compute"}, 7 * state.answers)),
        family("sglang:generation_tokens", "counter", (request, state.tokens)),
        histogram("sglang:time_to_first_token_seconds", request, TTFT, state.answers),
        histogram("sglang:inter_token_latency_seconds", {"model_name": name}, TPOT,
                  state.tokens),
    ]  # fmt: skip
    if state.block_size is None:
        return "".join(families)
    length = state.knobs.acceptance if state.drafts else 0.0
    rate = (length - 1) / (state.block_size - 1) if state.drafts else 0.0
    families.append(family("sglang:spec_accept_length", "gauge", (rank, length)))
    families.append(family("sglang:spec_accept_rate", "gauge", (rank, rate)))
    if release(state.knobs.version) >= (0, 5, 13):
        drafts = ({"model_name": name}, state.drafts)
        families.append(family("sglang:spec_verify_calls", "counter", drafts))
    return "".join(families)


def main(argv: list[str]) -> int:
    knobs = Knobs.read()
    if argv == ["version"]:
        print(f"sglang version: {knobs.version}\ngit revision: fffffff")
        return 0
    if argv[:1] != ["serve"]:
        sys.stderr.write("usage: sglang [-h] {serve,generate,version} ...\n")
        sys.stderr.write(f"sglang: error: argument subcommand: invalid choice: {argv[:1]}\n")
        return 2
    words = argv[1:]
    if words and not words[0].startswith("-"):
        words.insert(0, "--model-path")
    args = parser("sglang serve", FLAGS, knobs.version).parse_args(words)
    model = args.model_path
    key = args.api_key or _key_of(args.config)
    block = int(args.speculative_num_draft_tokens or 16) if args.speculative_algorithm else None
    begin(knobs, argv)
    names = (args.served_model_name or model,)
    state = Server("sglang", knobs, names, block, key, ready=False)
    state.context = int(args.context_length or 0) or None
    handler = type("Bound", (SglangHandler,), {"state": state, "args": vars(args)})
    host, port = args.host or "127.0.0.1", int(args.port or 30000)
    HTTPServer.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
    server = HTTPServer((host.strip("[]"), port), handler)
    threading.Thread(target=server.serve_forever, args=[0.05], daemon=True).start()

    def ready() -> None:
        state.ready = True
        log("[2026-11-27 10:00:09] The server is fired up and ready to roll!")

    start_up(knobs, _lines(model, key), ready)
    while True:
        time.sleep(3600)


def _key_of(config: str | None) -> str | None:
    """The one key of a --config file that matters here, read without a YAML library."""
    for line in Path(config).read_text().splitlines() if config else ():
        name, _, value = line.partition(":")
        if name.strip() == "api-key":
            return value.strip().strip("'\"")
    return None


def _lines(model: str, key: str | None) -> list[str]:
    """A start of 0.5.17, with the bar and the graphs that its load format and flags left out."""
    said = recorded("sglang-0.5.17.log")
    loading = next(number for number, line in enumerate(said) if "Load weight begin" in line)
    graphs = next(number for number, line in enumerate(said) if "max_total_num" in line)
    return [
        # the engine prints every argument it has, the key among them
        f"[2026-11-28 10:10:48] server_args=ServerArgs(model_path={model!r}, api_key={key!r})",
        *said[: loading + 1],
        *SHARDS,
        *said[loading + 1 : graphs],
        "[2026-11-28 10:11:22] Capture cuda graph begin. This can take up to several minutes.",
        "[2026-11-28 10:11:22] Capture cuda graph end. Time elapsed: 8.04 s.",
        *said[graphs:],
    ]
