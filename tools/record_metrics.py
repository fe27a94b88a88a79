"""What an engine's own metrics look like: its collectors, fed with three requests, printed.

    $(python tools/engine_env.py vllm 0.33.0) tools/record_metrics.py vllm > vllm-0.33.0.txt

Runs inside an engine's environment, see engine_env.py. Each request: 20 cycles of 7 draft tokens,
of which 3 are accepted, 80 tokens at 10 ms, the first after 200 ms. On vLLM the first of them is of
rank 0, the others of rank 1. Help lines are the engines' own words, and are left out.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

from stand_ins import stand_in

MODEL = "org/m"
CYCLES, DRAFTED, ACCEPTED = 20, 7, 3


def vllm() -> None:
    from vllm.v1.metrics.loggers import PrometheusStatLogger
    from vllm.v1.metrics.stats import IterationStats, SchedulerStats
    from vllm.v1.spec_decode.metrics import SpecDecodingStats

    config: Any = MagicMock()
    config.model_config = SimpleNamespace(
        served_model_name=MODEL, max_model_len=4096, is_diffusion=False
    )
    config.speculative_config = SimpleNamespace(num_speculative_tokens=DRAFTED)
    for name in ("lora_config", "kv_transfer_config", "ec_transfer_config", "watermark_config"):
        setattr(config, name, None)
    config.observability_config = SimpleNamespace(
        show_hidden_metrics=False, kv_cache_metrics=False, custom_histogram_buckets={},
        enable_mfu_metrics=False, cudagraph_metrics=False,
    )  # fmt: skip
    logger = PrometheusStatLogger(config, [0, 1])
    for rank in (0, 1, 1):
        drafts = SpecDecodingStats.new(DRAFTED)
        for _ in range(CYCLES):
            drafts.observe_draft(DRAFTED, ACCEPTED)
        step = IterationStats()
        step.num_generation_tokens = CYCLES * (ACCEPTED + 1)
        step.time_to_first_tokens_iter = [0.2]
        step.inter_token_latencies_iter = [0.04] * CYCLES
        step.finished_requests = [_finished()]
        seen = SchedulerStats(
            num_running_reqs=2, num_waiting_reqs=1, kv_cache_usage=0.25 * (rank + 1),
            spec_decoding_stats=drafts,
        )  # fmt: skip
        logger.record(seen, step, engine_idx=rank)


def _finished() -> Any:
    from vllm.v1.engine import FinishReason
    from vllm.v1.metrics.stats import FinishedRequestStats

    return FinishedRequestStats(
        finish_reason=FinishReason.LENGTH, e2e_latency=1.0, num_prompt_tokens=7,
        num_generation_tokens=CYCLES * (ACCEPTED + 1), max_tokens_param=80,
        mean_time_per_output_token=0.01,
    )  # fmt: skip


class _Unset(SimpleNamespace):
    """Settings of which none is set but those that are given."""

    def __getattr__(self, _: str) -> None:
        return None


def sglang() -> None:
    from sglang.srt import runtime_context
    from sglang.srt.observability import metrics_collector as found

    of_server = {"model_name": MODEL}
    of_rank = {**of_server, "engine_type": "unified", "tp_rank": 0, "pp_rank": 0, "moe_ep_rank": 0}
    args = _Unset(prefill_delayer_max_delay_passes=30)
    runtime_context._CONTEXT = MagicMock(config_bag=lambda _: args)
    found.exports_expert_balancedness_to_prometheus = lambda: False
    requests = found.TokenizerMetricsCollector(server_args=args, labels=of_server)
    for _ in range(3):
        requests.observe_time_to_first_token(of_server, 0.2, stream=False)
        for _ in range(CYCLES):
            requests.observe_inter_token_latency(of_server, 0.04, ACCEPTED + 1)
        requests.observe_one_finished_request(
            of_server, 7, CYCLES * (ACCEPTED + 1), 0, 1.0, False, spec_verify_ct=CYCLES
        )
    rank = found.SchedulerMetricsCollector(labels=of_rank, server_args=args)
    stats = found.SchedulerStats()
    stats.token_usage, stats.spec_accept_length, stats.spec_accept_rate = 0.25, 4.0, 3 / 7
    rank.log_stats(stats)
    rank.increment_realtime_tokens(
        dp_cooperation_info=None, prefill_compute_tokens=21, decode_tokens=240
    )


def main(engine: str) -> None:
    stand_in()
    {"vllm": vllm, "sglang": sglang}[engine]()
    from prometheus_client import generate_latest

    for line in generate_latest().decode().splitlines():
        name = line.removeprefix("# TYPE ").partition(" ")[0].partition("{")[0]
        if name.startswith(("vllm:", "sglang:")) and not name.endswith("_created"):
            print(line)


if __name__ == "__main__":
    main(sys.argv[1])
