from prometheus_client.parser import text_string_to_metric_families

from dflash_deploy.server.metrics import Metrics
from dflash_deploy.server.sequence import Report
from dflash_deploy.speculative.types import Step

LABELS = {"model_name": "org/m", "engine": "0"}


def values(metrics):
    families = text_string_to_metric_families(metrics.render().decode())
    return {
        (s.name, *(v for k, v in sorted(s.labels.items()) if k not in LABELS)): s.value
        for family in families
        for s in family.samples
        if all(s.labels.get(k) == v for k, v in LABELS.items())
    }


def test_every_name_is_there_before_the_first_request():
    seen = values(Metrics("org/m", 4))
    spec = "vllm:spec_decode_num_"
    for name in (
        f"{spec}drafts_total",
        f"{spec}draft_tokens_total",
        f"{spec}accepted_tokens_total",
        "dflash:declined_steps_total",
        "vllm:prompt_tokens_total",
        "vllm:generation_tokens_total",
        "vllm:num_requests_running",
        "vllm:num_requests_waiting",
        "vllm:e2e_request_latency_seconds_count",
        "vllm:time_to_first_token_seconds_count",
        "vllm:request_time_per_output_token_seconds_count",
    ):
        assert seen[(name,)] == 0
    assert [seen[(f"{spec}accepted_tokens_per_pos_total", str(i))] for i in range(3)] == [0, 0, 0]
    assert (f"{spec}accepted_tokens_per_pos_total", "3") not in seen
    assert seen[("vllm:request_success_total", "stop")] == 0


def test_a_cycle_counts_by_position_and_plain_decoding_drafts_nothing():
    metrics = Metrics("org/m", 4)
    for step in (Step((1,)), Step((1, 2, 3), 3, 2), Step((1,), 3, 0), Step((1, 2), 3, 1)):
        metrics.stepped(step, len(step.tokens))
    seen = values(metrics)
    spec = "vllm:spec_decode_num_"
    assert seen[(f"{spec}drafts_total",)] == 3
    assert seen[(f"{spec}draft_tokens_total",)] == 9
    assert seen[(f"{spec}accepted_tokens_total",)] == 3
    assert [seen[(f"{spec}accepted_tokens_per_pos_total", str(i))] for i in range(3)] == [2, 1, 0]
    assert seen[("vllm:generation_tokens_total",)] == 7


def test_a_draft_that_turned_itself_down_is_seen():
    metrics = Metrics("org/m", 4)
    for step in (Step((1,)), Step((1, 2, 3), 3, 2), Step((1,), declined=True)):
        metrics.stepped(step, len(step.tokens))
    assert values(metrics)[("dflash:declined_steps_total",)] == 1


def test_times_are_those_of_the_report():
    metrics = Metrics("org/m", 1)
    metrics.finished(Report("length", 3, 2, 0, 0, (0,), first_token=0.5, decode=1.5))
    seen = values(metrics)
    assert seen[("vllm:time_to_first_token_seconds_sum",)] == 0.5
    assert seen[("vllm:e2e_request_latency_seconds_sum",)] == 2.0
    assert seen[("vllm:request_time_per_output_token_seconds_sum",)] == 1.5  # of the second token
    assert seen[("vllm:request_success_total", "length")] == 1


def test_two_servers_in_one_process_do_not_share_counters():
    one, other = Metrics("org/m", 1), Metrics("org/m", 1)
    one.began(5)
    assert values(one)[("vllm:prompt_tokens_total",)] == 5
    assert values(other)[("vllm:prompt_tokens_total",)] == 0
