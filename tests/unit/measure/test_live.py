from __future__ import annotations

import msgspec
import pytest

from dflash_deploy.measure.acceptance import check
from dflash_deploy.measure.live import Numbers, Reading, numbers, reading
from dflash_deploy.measure.metrics import read_metrics
from dflash_deploy.metric_names import metric_names
from dflash_deploy.registry import load
from tests.fakes.exposition import family, histogram
from tests.unit.measure.conftest import Serve

ENGINES = load(user=False).engines
VLLM = metric_names(ENGINES["vllm"], "0.33.0")
SGLANG = metric_names(ENGINES["sglang"], "0.5.23")
OLD_SGLANG = metric_names(ENGINES["sglang"], "0.5.11")
SPEC = "vllm:spec_decode_num_"


def rank(number: int) -> dict[str, str]:
    return {"engine": str(number), "model_name": "m"}


def vllm(at: float, *ranks: tuple[int, int, int]) -> Reading:
    """Drafts, accepted tokens and generated tokens of each rank."""
    text = "".join(
        family(name, "counter", *((rank(n), each[i]) for n, each in enumerate(ranks)))
        for i, name in enumerate((f"{SPEC}drafts", f"{SPEC}accepted_tokens", "vllm:generation_tokens"))
    )  # fmt: skip
    return reading(text, VLLM, at)


def test_the_difference_is_summed_over_ranks() -> None:
    seen = numbers(vllm(12.0, (30, 60, 100), (20, 40, 50)), vllm(10.0, (10, 20, 40), (10, 20, 30)))

    assert seen.acceptance_length == 1 + 60 / 30
    assert seen.tokens_per_second == 40.0


def test_a_server_that_began_again_counts_from_zero_in_every_counter() -> None:
    before = vllm(10.0, (100, 37, 500), (90, 9, 80))
    seen = numbers(vllm(11.0, (110, 40, 510), (5, 10, 15)), before)

    assert seen.acceptance_length == 1 + 50 / 115
    assert seen.tokens_per_second == 525.0


def test_one_reading_is_since_the_start_and_has_no_speed() -> None:
    seen = numbers(vllm(10.0, (10, 20, 30)))

    assert (seen.acceptance_length, seen.tokens_per_second) == (3.0, None)


def test_an_idle_server_says_nothing_of_its_draft() -> None:
    same = vllm(10.0, (10, 20, 30))

    seen = numbers(Reading(12.0, same.counters), same)

    assert (seen.acceptance_length, seen.tokens_per_second) == (None, 0.0)


def test_positions_are_shares_of_the_cycles() -> None:
    places = [({**rank(n), "position": str(p)}, v) for n, p, v in ((0, 0, 6), (0, 1, 2), (1, 0, 3))]
    text = family(f"{SPEC}drafts", "counter", (rank(0), 8), (rank(1), 4))
    text += family(f"{SPEC}accepted_tokens_per_pos", "counter", *places)

    assert numbers(reading(text, VLLM, 0.0)).acceptance_by_position == (0.75, 2 / 12)


def test_a_histogram_gives_the_mean_of_what_came_since() -> None:
    name = "vllm:time_to_first_token_seconds"
    before = reading(histogram(name, rank(0), 0.5, 10), VLLM, 0.0)
    text = histogram(name, rank(0), 0.5, 10)
    after = reading(text.replace(" 5.0", " 9.0").replace(" 10.0", " 12.0"), VLLM, 1.0)

    assert numbers(after, before).ttft_seconds == pytest.approx(2.0)
    assert numbers(after, after).ttft_seconds is None


def test_gauges_of_ranks_are_added_and_the_fullest_cache_counts() -> None:
    text = family("vllm:num_requests_running", "gauge", (rank(0), 2), (rank(1), 3))
    text += family("vllm:kv_cache_usage_perc", "gauge", (rank(0), 0.2), (rank(1), 0.7))

    seen = numbers(reading(text, VLLM, 0.0))

    assert (seen.running, seen.waiting, seen.kv_usage) == (5, None, 0.7)


def sglang(length: float, running: int) -> str:
    gauge = {"model_name": "m", "tp_rank": "0"}
    return family("sglang:spec_accept_length", "gauge", (gauge, length)) + family(
        "sglang:num_running_reqs", "gauge", (gauge, running)
    )


@pytest.mark.parametrize("names", [SGLANG, OLD_SGLANG])
def test_sglangs_gauge_stands_in_while_requests_run(names: object) -> None:
    busy = reading(sglang(3.5, 1), names, 2.0)
    idle = reading(sglang(3.5, 0), names, 4.0)

    assert numbers(busy, busy).acceptance_length == 3.5
    assert numbers(idle, busy).acceptance_length is None
    assert numbers(idle).acceptance_length == 3.5


def test_sglangs_counters_come_before_its_gauge() -> None:
    text = sglang(9.0, 1) + family("sglang:spec_verify_calls", "counter", ({"model_name": "m"}, 10))
    text += family("sglang:generation_tokens", "counter", ({"is_streaming": "true"}, 40))

    assert numbers(reading(text, SGLANG, 0.0)).acceptance_length == 4.0


def test_only_the_series_with_the_label_count() -> None:
    modes = [({"mode": mode}, v) for mode, v in (("decode", 20), ("prefill_compute", 900))]
    before = reading("", SGLANG, 0.0)
    after = reading(family("sglang:realtime_tokens", "counter", *modes), SGLANG, 2.0)

    assert numbers(after, before).tokens_per_second == 10.0


def test_a_server_that_does_not_speculate_or_count_has_no_numbers() -> None:
    assert numbers(reading("", VLLM, 1.0), reading("", VLLM, 0.0)) == Numbers()


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_every_number_is_read_from_a_running_server(serve: Serve, engine: str) -> None:
    names = {"vllm": VLLM, "sglang": SGLANG}[engine]
    endpoint = serve(engine, ACCEPTANCE=4.0)

    check(endpoint)
    seen = numbers(
        reading(read_metrics(endpoint) or "", names, 2.0), reading("", names, 0.0)
    )  # fmt: skip

    assert seen.acceptance_length == pytest.approx(4.0)
    assert seen.tokens_per_second == 128.0
    assert seen.ttft_seconds == pytest.approx(0.2)
    assert seen.tpot_seconds == pytest.approx(0.01)
    assert seen.kv_usage == 0.25
    unseen = {name for name, value in msgspec.structs.asdict(seen).items() if value in (None, ())}
    assert unseen == ({"acceptance_by_position"} if engine == "sglang" else set())
