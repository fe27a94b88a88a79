"""How many cards, how long a context, how many requests: by what memory leaves room for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dflash_deploy.errors import DFlashError, DoesNotFit, Unsupported, UsageError
from dflash_deploy.hardware import Card, Hardware, parse
from dflash_deploy.no_room import check_free
from dflash_deploy.plan import make_plan
from dflash_deploy.registry import load
from dflash_deploy.request import Request

REGISTRY = load(user=False)


def planned(model: str, gpu: str | Hardware, *words: str, **asked):
    cards = parse(gpu, REGISTRY.gpus) if isinstance(gpu, str) else gpu
    request = Request(
        model=model, engine="vllm", engine_args=words, trust_remote_code=True, **asked
    )
    return make_plan(REGISTRY, request, cards)


def why(plan, name: str) -> str:
    return next(choice.why for choice in plan.choices if choice.name == name)


def test_a_large_card_takes_the_defaults() -> None:
    plan = planned("qwen3-8b", "H200")
    assert (plan.tensor_parallel, plan.context, plan.concurrency) == (1, 32768, 64)
    assert plan.memory.requests > 20
    assert "weights 15.3" in why(plan, "memory")


def test_a_small_card_takes_what_fits() -> None:
    plan = planned("qwen3-8b", "RTX-4090")
    assert (plan.tensor_parallel, plan.context) == (1, 16384)
    assert plan.concurrency < 64
    assert "fits beside the weights" in why(plan, "context")
    assert "requests of 2048 tokens" in why(plan, "concurrency")
    assert plan.memory.fits


def test_two_small_cards_share_it_before_the_context_is_cut() -> None:
    plan = planned("qwen3-8b", "RTX-4090:2")
    assert (plan.tensor_parallel, plan.context) == (2, 32768)


def test_cards_that_are_not_needed_stay_free() -> None:
    assert planned("qwen3-8b", "H100:8").tensor_parallel == 1


def test_the_documented_number_of_cards_holds_where_it_is_there() -> None:
    assert planned("minimax-m2.7", "H200:8").tensor_parallel == 4
    assert planned("minimax-m2.7", "H200:2").tensor_parallel == 2


def test_recurrent_states_limit_how_many_requests_run() -> None:
    """1 + K states of 144 MiB and more a request: 2.4 GiB with blocks of 16."""
    plan = planned("qwen3.5-27b", "H200")
    assert plan.concurrency < 40
    assert planned("qwen3.5-27b", "H200", block_size=8).concurrency > plan.concurrency


def test_what_was_asked_for_stays_or_is_refused() -> None:
    assert planned("qwen3-8b", "RTX-4090", context=16384, concurrency=2).concurrency == 2
    with pytest.raises(Unsupported, match=r"does not fit 1 x RTX-4090: weights 15.3") as stopped:
        planned("qwen3-8b", "RTX-4090", context=40960)
    ways = [stopped.value.hint, *(stopped.value.detail or "").splitlines()]
    assert ways == ["--context 16384", "or: --kv-dtype fp8", "or: --gpu RTX-4090:2"]


@pytest.mark.parametrize("way", [{"context": 16384}, {"kv_dtype": "fp8"}, {"gpu": "RTX-4090:2"}])
def test_each_way_out_leads_out(way) -> None:
    asked = {"gpu": "RTX-4090", "context": 40960} | way
    assert planned("qwen3-8b", asked.pop("gpu"), **asked).memory.fits


def test_weights_that_no_card_here_holds_are_refused_at_once() -> None:
    with pytest.raises(Unsupported, match=r"leave 0.0 for the cache") as stopped:
        planned("qwen3.5-27b", "RTX-4090")
    assert "--gpu RTX-4090:4" in f"{stopped.value.hint} {stopped.value.detail}"


def test_the_users_own_share_of_the_card_counts() -> None:
    assert planned("qwen3-8b", "H100", "--gpu-memory-utilization=0.5").memory.budget == (
        pytest.approx(39.4, abs=0.1))  # fmt: skip
    with pytest.raises(Unsupported):
        planned("qwen3-8b", "H100", "--gpu-memory-utilization", "0.2")


def test_what_the_driver_keeps_is_not_given_out() -> None:
    kept = Card("H100", "hopper", 80, reserved_gib=8)
    assert planned("qwen3-8b", Hardware((kept,), "found")).memory.budget == pytest.approx(66.24)


def test_an_unknown_size_or_card_is_no_estimate() -> None:
    assert planned("qwen3-8b", Hardware()).memory is None
    assert planned("kimi-k2.5", Hardware()).tensor_parallel == 8
    assert planned("minimax-m2.5", "H200:8").memory is None  # of its draft


def test_more_cards_than_there_are_is_refused() -> None:
    with pytest.raises(Unsupported, match=r"needs 4 cards.*asked for"):
        planned("qwen3-8b", "H100:2", tensor_parallel=4)


def test_sglang_is_estimated_by_its_own_source_and_admits_what_it_can() -> None:
    def of(gpu: str, **asked):
        request = Request(model="qwen3.5-27b", engine="sglang", **asked)
        return make_plan(REGISTRY, request, parse(gpu, REGISTRY.gpus))

    assert of("H200").memory.fits
    assert of("H200").concurrency == 64  # it lowers it by itself
    assert of("H100:2").tensor_parallel == 2
    with pytest.raises(Unsupported, match="does not fit"):
        of("RTX-4090")


def test_what_others_hold_of_a_card_is_not_there() -> None:
    def started(free: float | None, origin: str = "found"):
        card = Card("H100", "hopper", 80, free_gib=free, reserved_gib=0.8)
        cards = Hardware((card,), origin)
        plan = planned("qwen3-8b", cards)
        check_free(cards, plan.tensor_parallel, plan.memory, plan.engine)

    started(79.0)
    started(None)
    started(10.0, "given")
    with pytest.raises(
        Unsupported, match=r"H100 has 40.0 GiB free, and vllm takes 72.9"
    ) as stopped:
        started(40.0)
    assert stopped.value.hint.endswith("or -- --gpu-memory-utilization 0.49")
    with pytest.raises(Unsupported) as stopped:
        started(5.0)
    assert "utilization" not in stopped.value.hint


def test_sglang_takes_what_is_free_as_long_as_the_weights_fit() -> None:
    card = Card("H100", "hopper", 80, free_gib=40)
    request = Request(model="qwen3-8b", engine="sglang")
    plan = make_plan(REGISTRY, request, Hardware((card,), "found"))
    check_free(plan.hardware, 1, plan.memory, "sglang")
    with pytest.raises(Unsupported):
        check_free(
            Hardware((Card("H100", "hopper", 80, free_gib=10),), "found"), 1, plan.memory, "sglang"
        )


def test_a_share_published_for_larger_cards_gives_way_to_the_engines_own() -> None:
    def of(gpu: str):
        request = Request(model="gpt-oss-120b", engine="sglang")
        return make_plan(REGISTRY, request, parse(gpu, REGISTRY.gpus))

    assert "--mem-fraction-static" in of("B200").argv
    assert "--mem-fraction-static" not in of("H100").argv
    assert of("H100").tensor_parallel == 1


def test_the_users_share_is_never_dropped() -> None:
    request = Request(model="gpt-oss-120b", engine="sglang",
                      engine_args=("--mem-fraction-static", "0.5"))  # fmt: skip
    with pytest.raises(DoesNotFit) as stopped:
        make_plan(REGISTRY, request, parse("H100", REGISTRY.gpus))
    assert (stopped.value.exit_code, stopped.value.code) == (4, "unsupported")


def ways(*words: str, model: str = "qwen3-8b", gpu: str | Hardware = "H100", **asked) -> list[str]:
    with pytest.raises(DoesNotFit) as stopped:
        planned(model, gpu, *words, **asked)
    return [stopped.value.hint, *(stopped.value.detail or "").splitlines()]


def test_more_cards_are_said_with_all_they_need() -> None:
    assert ways(model="laguna-xs-2.1", gpu="L40S", tensor_parallel=1) == [
        "--gpu L40S:2 --tensor-parallel 2"]  # fmt: skip
    assert ways(tensor_parallel=3) == ["--tensor-parallel 1"]


def test_a_way_that_a_rule_refuses_is_none() -> None:
    said = ways(model="gemma-4-31b", gpu="A100-40:2", context=32768)
    assert not [way for way in said if "fp8" in way]  # triton_attn reads none on Ampere
    assert not [way for way in ways(model="qwen3.5-397b", gpu="A10G") if way.startswith("--gpu")]


def test_a_small_share_of_the_card_is_the_first_thing_to_change() -> None:
    first, *_ = ways("--gpu-memory-utilization", "0.1")
    assert first == "leave the share of memory after `--` to the engine"


@pytest.mark.parametrize(
    "cards",
    [
        (Card("RTX-4090", "ada", 24), Card("H100", "hopper", 80)),
        (Card("NVIDIA X900", None, 24),),
        (Card("H100", "hopper", 36, mig="3g.40gb"),),
    ],
)
def test_cards_without_a_name_of_their_own_are_not_multiplied(cards) -> None:
    said = ways(model="qwen3.5-27b", gpu=Hardware(cards, "found"))
    assert not [way for way in said if "--gpu" in way]


def test_of_cards_of_several_kinds_one_may_do_alone() -> None:
    mixed = Hardware(
        (Card("RTX-4090", "ada", 24, index=0), Card("H100", "hopper", 80, index=1)), "found"
    )
    said = ways(model="gpt-oss-120b", gpu=mixed)
    assert "export CUDA_VISIBLE_DEVICES=1, for the H100 alone" in " ".join(said)


@pytest.mark.parametrize("context", [1, 191])
@pytest.mark.parametrize("engine", ["vllm", "sglang", "transformers"])
def test_a_context_without_room_for_an_answer_is_none(engine: str, context: int) -> None:
    with pytest.raises(UsageError, match=f"context of {context} has no room") as refused:
        make_plan(REGISTRY, Request(model="qwen3-8b", engine=engine, context=context), Hardware())
    assert refused.value.hint == "--context 192"
    least = Request(model="qwen3-8b", engine=engine, context=192)
    assert make_plan(REGISTRY, least, Hardware()).context == 192


def test_sglang_takes_more_of_a_small_card_for_a_shorter_prefill() -> None:
    cards = parse("RTX-4090", REGISTRY.gpus)
    with pytest.raises(DoesNotFit) as stopped:
        make_plan(REGISTRY, Request(model="qwen3-8b", engine="sglang"), cards)
    assert stopped.value.hint == "-- --chunked-prefill-size 2048"
    words = tuple(stopped.value.hint.split()[1:])
    made = make_plan(REGISTRY, Request(model="qwen3-8b", engine="sglang", engine_args=words), cards)
    assert made.memory.fits
    assert "--chunked-prefill-size" in made.argv


def test_a_shorter_prefill_is_no_help_where_the_share_is_said_or_on_vllm() -> None:
    cards = parse("RTX-4090", REGISTRY.gpus)
    said = ("--mem-fraction-static", "0.7")
    for engine, words in (("sglang", said), ("vllm", ())):
        asked = Request(model="qwen3-8b", engine=engine, engine_args=words, context=40960)
        with pytest.raises(DoesNotFit) as stopped:
            make_plan(REGISTRY, asked, cards)
        assert "chunked" not in f"{stopped.value.hint} {stopped.value.detail}"


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("gpu", ["RTX-5090", "RTX-5090:32", "H100"])
def test_no_number_of_cards_is_named_that_a_rule_refuses(engine, gpu) -> None:
    with pytest.raises(DoesNotFit, match=r"needs (64|16) cards") as caught:
        make_plan(REGISTRY, Request(model="beam-1.0", engine=engine), parse(gpu, REGISTRY.gpus))
    others = "H200:8" if gpu == "H100" else "GB300:4"
    assert caught.value.hint == f"dflash plan beam-1.0 --engine {engine} --gpu {others}"
    make_plan(REGISTRY, Request(model="beam-1.0", engine=engine), parse(others, REGISTRY.gpus))
    assert "are refused: the draft's attention heads do not divide" in caught.value.detail


@pytest.mark.parametrize("version", ["0.5.15.post1", "0.5.17"])
def test_a_rule_that_forbids_prefixes_counts_in_the_estimate(version: str) -> None:
    """Without them a recurrent state is kept for every request that may run."""
    asked = Request(model="qwen3.5-27b", engine="sglang", engine_version=version)
    plan = make_plan(REGISTRY, asked, parse("H100", REGISTRY.gpus))
    again = replace(asked, concurrency=plan.concurrency, engine_args=("--disable-radix-cache",))
    assert plan.memory == make_plan(REGISTRY, again, plan.hardware).memory


def test_the_command_with_more_cards_is_the_one_that_was_said() -> None:
    asked = Request(model="minimax-m2.5", engine="vllm", engine_args=("--seed", "7"))
    with pytest.raises(DoesNotFit) as caught:
        make_plan(REGISTRY, asked, parse("L4:2", REGISTRY.gpus))
    assert caught.value.hint == "dflash plan minimax-m2.5 --engine vllm --gpu L4:16 -- --seed 7"


def test_consent_to_code_is_asked_for_before_cards() -> None:
    for cards in ("H100:8", "H100:16"):
        asked = Request(model="nvidia/Kimi-K2.6-DFlash", engine="vllm", trust_remote_code=True)
        with pytest.raises(Unsupported, match="no commit is known here"):
            make_plan(REGISTRY, asked, parse(cards, REGISTRY.gpus))


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_number_of_cards_that_is_named_is_one_that_works(engine) -> None:
    with pytest.raises(DoesNotFit) as caught:
        make_plan(REGISTRY, Request(model="beam-1.0", engine=engine), parse("H200", REGISTRY.gpus))
    assert caught.value.hint == f"dflash plan beam-1.0 --engine {engine} --gpu H200:8"
    assert caught.value.detail is None
    cards = parse("H200:8", REGISTRY.gpus)
    assert make_plan(REGISTRY, Request(model="beam-1.0", engine=engine), cards).tensor_parallel == 8


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("gpu", ["RTX-5090", "H100"])
def test_every_number_of_cards_that_is_named_gets_a_plan(engine, gpu) -> None:
    named = 0
    for entry in REGISTRY.entries.values():
        asked = Request(model=entry.id, engine=engine, trust_remote_code=True)
        try:
            make_plan(REGISTRY, asked, parse(gpu, REGISTRY.gpus))
        except DFlashError as error:
            before, _, cards = (error.hint or "").partition("--gpu ")
            if cards and before.startswith(("dflash plan", "--gpu")):
                named += 1
                _plans(asked, cards)
    assert named


def _plans(asked: Request, cards: str) -> None:
    try:
        assert make_plan(REGISTRY, asked, parse(cards, REGISTRY.gpus))
    except Unsupported as error:  # consent to code is another matter
        assert "no commit is known" in error.message, asked


def test_as_many_cards_as_divide_the_draft_are_taken() -> None:
    """Of 16, the draft's heads take 8: a shorter context rather than a refusal."""
    asked = Request(model="laguna-s-2.1", engine="vllm")
    made = make_plan(REGISTRY, asked, parse("RTX-5090:16", REGISTRY.gpus))
    assert made.tensor_parallel == 8


def test_far_less_context_than_usual_is_said_unasked() -> None:
    def warnings(gpu: str, **options) -> str:
        request = Request(model="gemma-4-31b", engine="sglang", **options)
        return " ".join(make_plan(REGISTRY, request, parse(gpu, REGISTRY.gpus)).warnings)

    assert "leaves a context of 2048 tokens, where 32768 are usual" in warnings("H100")
    assert "leaves a context" not in warnings("H100", context=2048)
    assert "leaves a context" not in warnings("H200")
