"""Prometheus metrics under vLLM's names, so that one client and one dashboard read both."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from dflash_deploy.server.sequence import Report
from dflash_deploy.speculative.types import Step

LABELS = ("model_name", "engine")
ENGINE = "0"  # vLLM's data-parallel rank; there is one here
FINISHED = ("stop", "length", "abort", "error")
A_TOKEN = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640)


class Metrics:
    """The counters of one server in a registry of their own. Every method is thread-safe."""

    def __init__(self, model_name: str, block_size: int) -> None:
        self._registry = CollectorRegistry()
        self._labels = (model_name, ENGINE)
        spec = "vllm:spec_decode_num_"
        self._drafts = self._counter(f"{spec}drafts", "Draft-verify cycles.")
        self._draft_tokens = self._counter(f"{spec}draft_tokens", "Tokens proposed by the draft.")
        self._accepted = self._counter(f"{spec}accepted_tokens", "Draft tokens the target took.")
        self._declined = self._counter(
            "dflash:declined_steps", "Plain steps made because drafting did not pay."
        )
        by_position = Counter(
            f"{spec}accepted_tokens_per_pos",
            "Draft tokens the target took, by position in the block.",
            (*LABELS, "position"),
            registry=self._registry,
        )
        self._by_position = [
            by_position.labels(*self._labels, str(i)) for i in range(max(block_size - 1, 0))
        ]
        self._prompt_tokens = self._counter("vllm:prompt_tokens", "Prompt tokens processed.")
        self._answer_tokens = self._counter("vllm:generation_tokens", "Tokens generated.")
        self._running = self._gauge("vllm:num_requests_running", "Requests being decoded.")
        self._waiting = self._gauge("vllm:num_requests_waiting", "Requests in the queue.")
        finished = Counter(
            "vllm:request_success",
            "Requests that ended, by reason.",
            (*LABELS, "finished_reason"),
            registry=self._registry,
        )
        self._finished = {why: finished.labels(*self._labels, why) for why in FINISHED}
        self._e2e = self._histogram("vllm:e2e_request_latency_seconds", "Arrival to last token.")
        self._ttft = self._histogram("vllm:time_to_first_token_seconds", "Arrival to first token.")
        self._tpot = self._histogram(
            "vllm:request_time_per_output_token_seconds",
            "Seconds a token of a request, the first one left out.",
            A_TOKEN,
        )

    def queue(self, running: int, waiting: int) -> None:
        self._running.set(running)
        self._waiting.set(waiting)

    def began(self, prompt_tokens: int) -> None:
        self._prompt_tokens.inc(prompt_tokens)

    def stepped(self, step: Step, kept: int) -> None:
        """One cycle, of which the answer keeps `kept` tokens (a stop string may cut it short)."""
        self._answer_tokens.inc(kept)
        if step.declined:
            self._declined.inc()
        if not step.drafted:
            return
        self._drafts.inc()
        self._draft_tokens.inc(step.drafted)
        self._accepted.inc(step.accepted)
        for position in self._by_position[: step.accepted]:
            position.inc()

    def finished(self, report: Report) -> None:
        self._finished[report.finish_reason].inc()
        self._ttft.observe(report.first_token)
        self._e2e.observe(report.first_token + report.decode)
        if report.completion_tokens > 1:
            self._tpot.observe(report.decode / (report.completion_tokens - 1))

    def gave_up(self, why: str) -> None:
        """A request ended without its whole answer: `abort` (client gone, shutdown) or `error`."""
        self._finished[why].inc()

    def render(self) -> bytes:
        return generate_latest(self._registry)

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(name, text, LABELS, registry=self._registry).labels(*self._labels)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(name, text, LABELS, registry=self._registry).labels(*self._labels)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...] = SECONDS) -> Histogram:
        histogram = Histogram(name, text, LABELS, registry=self._registry, buckets=buckets)
        return histogram.labels(*self._labels)
