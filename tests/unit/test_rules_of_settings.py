"""What the shipped rules say of settings: schedules, backends, budgets, and SGLang's own."""

from __future__ import annotations

import msgspec
import pytest

from dflash_deploy.registry import Registry, load
from dflash_deploy.schema import Layers, Target
from tests.unit.test_rules import GEMMA, GPT_OSS, HYBRID, TARGET, ids, situation


@pytest.fixture(scope="module")
def registry() -> Registry:
    return load(user=False)


@pytest.mark.parametrize(
    ("schedule", "malformed"),
    [
        ("[[1, 16, 15], [17, 64, 7]]", False),
        ("[[17, 64, 7], [1, 16, 15]]", False),  # the engine sorts it
        ("[[1, 4, 15], [9, 64, 0]]", False),  # a gap carries the last K
        ("[[2, 8, 7]]", True),
        ("[[1, 8, 7], [8, 16, 3]]", True),
        ("[[8, 1, 7]]", True),
        ("[[1, 8, 16]]", True),  # above num_speculative_tokens
        ("[[1, 8, -1]]", True),
        ("[[1, 8]]", True),
        ("[]", True),
        ("7", True),
    ],
)
def test_a_schedule_of_draft_tokens(registry, schedule, malformed) -> None:
    at = situation(registry, settings={"schedule": (schedule,)})
    assert ("schedule-malformed" in ids(at, "refuse")) == malformed


def test_no_draft_tokens_at_high_load_pay_from_0_33(registry) -> None:
    rests = {"schedule": ("[[1, 8, 7], [9, 64, 0]]",)}
    assert "schedule-rests" in ids(situation(registry, version="0.30.0", settings=rests), "warn")
    assert "schedule-rests" not in ids(situation(registry, version="0.33.0", settings=rests))
    drafts = {"schedule": ("[[1, 8, 7]]",)}
    assert "schedule-rests" not in ids(situation(registry, version="0.30.0", settings=drafts))


@pytest.mark.parametrize(
    ("version", "further", "rule", "severity"),
    [
        ("0.25.1", {"data_parallel": ("2",)}, "schedule-data-parallel-early", "refuse"),
        ("0.26.0", {"data_parallel": ("2",)}, "schedule-data-parallel", "warn"),
        ("0.26.0", {"--no-async-scheduling": ()}, "schedule-synchronous", "warn"),
    ],
)
def test_where_a_schedule_does_not_hold(registry, version, further, rule, severity) -> None:
    settings = {"schedule": ("[[1, 8, 7]]",)}
    assert rule in ids(situation(registry, version=version, settings=settings | further), severity)
    assert rule not in ids(situation(registry, version=version, settings=settings))
    assert rule not in ids(situation(registry, version="0.33.0", settings=further))


@pytest.mark.parametrize(
    ("architecture", "backend", "refused"),
    [
        ("hopper", "FLEX_ATTENTION", True),
        ("blackwell", "FLEX_ATTENTION", True),
        ("hopper", "FLASH_ATTN", False),
        ("blackwell", "TRITON_ATTN", False),
        ("ampere", "FLASH_ATTN", True),
        ("ampere", "TRITON_ATTN", False),
    ],
)
def test_attention_sinks(registry, architecture, backend, refused) -> None:
    at = situation(registry, target=GPT_OSS, architecture=architecture,
                   settings={"attention_backend": (backend,)})  # fmt: skip
    assert bool({"attention-sinks", "attention-sinks-large"} & ids(at, "refuse")) == refused


def test_a_rule_about_the_drafts_cache_looks_at_the_drafts_cache(registry) -> None:
    said = {"draft_attention_backend": ("FLASH_ATTN",)}
    at = {"architecture": "ada", "kv_dtype": "fp8"}
    assert "draft-backend-fp8" in ids(situation(registry, settings=said, **at), "refuse")
    kept = said | {"draft_kv_dtype": ("auto",)}
    assert "draft-backend-fp8" not in ids(situation(registry, settings=kept, **at))


@pytest.mark.parametrize(
    ("ranks", "said", "refused"), [(4, "2", True), (4, "1", False), (4, "4", False)]
)
def test_a_draft_runs_on_one_card_or_on_all(registry, ranks, said, refused) -> None:
    key = "--speculative-config.draft_tensor_parallel_size"
    at = situation(registry, tensor_parallel=ranks, settings={key: (said,)})
    assert ("draft-ranks" in ids(at, "refuse")) == refused


def test_sglang_tracks_recurrent_states_no_closer_than_a_block(registry) -> None:
    def at(interval: str, target: Target = HYBRID) -> set[str]:
        said = {"--mamba-track-interval": (interval,)}
        return ids(situation(registry, "sglang", "0.5.23", target=target, settings=said), "refuse")

    assert "hybrid-track-interval" in at("8")
    assert "hybrid-track-interval" not in at("16")
    assert "hybrid-track-interval" not in at("8", TARGET)


def test_sglangs_two_names_for_the_block_agree(registry) -> None:
    def at(other: str) -> set[str]:
        said = {"block_size": ("16",), "--speculative-dflash-block-size": (other,)}
        return ids(situation(registry, "sglang", "0.5.23", settings=said), "refuse")

    assert "block-sizes-differ" in at("8")
    assert "block-sizes-differ" not in at("16")


@pytest.mark.parametrize(
    ("target", "settings", "rule"),
    [
        (GPT_OSS, {}, "sinks-fp8-ampere"),
        (GEMMA, {}, "gemma-fp8-ampere"),
        (TARGET, {"attention_backend": ("TRITON_ATTN",)}, "triton-fp8-ampere"),
        (TARGET, {"draft_attention_backend": ("TRITON_ATTN",)}, "draft-triton-fp8-ampere"),
    ],
)
def test_triton_reads_no_fp8_cache_on_ampere(registry, target, settings, rule) -> None:
    def at(architecture: str, kv_dtype: str = "fp8") -> set[str]:
        return ids(situation(registry, target=target, architecture=architecture,
                             kv_dtype=kv_dtype, settings=settings))  # fmt: skip

    assert rule in at("ampere")
    assert rule not in at("ada")
    assert rule not in at("ampere", "bf16")
    assert "gemma-fp8" not in at("ampere")


def refused(registry: Registry, engine: str = "vllm", version: str = "0.33.0", **given) -> set[str]:
    return ids(situation(registry, engine, version, **given), "refuse")


def test_pipeline_stages_are_for_the_classes_that_hand_their_states_on(registry) -> None:
    said = {"pipeline_parallel": ("2",)}
    minimax = msgspec.structs.replace(TARGET, architecture="MiniMaxM2ForCausalLM")
    assert "pipeline-parallel-few" not in refused(registry, settings=said)
    assert "pipeline-parallel-few" in refused(registry, target=minimax, settings=said)
    assert "pipeline-parallel-few" not in refused(registry, target=None, settings=said)


MLA = msgspec.structs.replace(TARGET, layers=[Layers(kind="mla", count=61, latent_dim=576)])


@pytest.mark.parametrize(
    ("given", "backend", "rule"),
    [
        ({}, "NOPE", "backend-known"),
        ({}, "TRITON_MLA", "backend-of-latents"),
        ({"target": MLA}, "FLASH_ATTN", "backend-of-heads"),
        ({"architecture": "ampere", "kv_dtype": "fp8"}, "FLASH_ATTN", "backend-fp8"),
        ({"kv_dtype": "fp8"}, "FLEX_ATTENTION", "backend-fp8-flex"),
        ({"target": GEMMA, "architecture": "ada"}, "FLASH_ATTN", "backend-head-size"),
    ],
)
def test_the_targets_attention_backend(registry, given, backend, rule) -> None:
    assert rule in refused(registry, settings={"attention_backend": (backend,)}, **given)
    assert rule not in refused(registry, settings={"attention_backend": ("TRITON_ATTN",)},
                               **given | {"target": TARGET})  # fmt: skip


@pytest.mark.parametrize(
    ("version", "tokens", "small"),
    [
        ("0.33.0", "32", True),
        ("0.33.0", "9k", False),
        ("0.26.0", "0.8k", True),
        ("0.26.0", "10k", False),
    ],
)
def test_the_budget_of_tokens_holds_a_token_of_every_request(
    registry, version, tokens, small
) -> None:
    said = {"batched_tokens": (tokens,), "concurrency": ("64",)}
    assert ("batched-tokens" in refused(registry, version=version, settings=said)) == small


@pytest.mark.parametrize(
    ("settings", "ranks", "wrong"),
    [
        ({"dp_attention": (), "data_parallel": ("2",)}, 1, True),
        ({"dp_attention": (), "data_parallel": ("2",)}, 4, False),
        ({"--attn-dp-size": ("2",)}, 1, True),
        ({"data_parallel": ("2",)}, 1, False),
    ],
)
def test_copies_of_the_attention_divide_the_ranks(registry, settings, ranks, wrong) -> None:
    found = refused(registry, "sglang", "0.5.23", tensor_parallel=ranks, settings=settings)
    assert ("dp-attention-ranks" in found) == wrong


@pytest.mark.parametrize(
    ("settings", "architecture", "rule", "wrong"),
    [
        ({"--mamba-track-interval": ("100",)}, "blackwell", "hybrid-track-interval", True),
        ({"--mamba-track-interval": ("128",)}, "blackwell", "hybrid-track-interval", False),
        ({"draft_window": ("0",)}, None, "draft-window", True),
        ({"draft_window": ("-5",)}, None, "draft-window", True),
        ({"draft_window": ("4096",)}, None, "draft-window", False),
        ({"--device": ("cpu",)}, None, "on-a-cpu", True),
        ({"--attn-cp-size": ("2",)}, None, "dp-attention-context-parallel", False),
        (
            {"--attn-cp-size": ("2",), "dp_attention": ()},
            None,
            "dp-attention-context-parallel",
            True,
        ),
        ({"recurrent_state_cache": ("no_buffer",)}, None, "hybrid-no-buffer", True),
        (
            {"recurrent_state_cache": ("no_buffer",), "no_prefix_caching": ()},
            None,
            "hybrid-no-buffer",
            False,
        ),
    ],
)
def test_what_sglang_ends_at_while_it_starts(registry, settings, architecture, rule, wrong) -> None:
    found = refused(registry, "sglang", "0.5.23", target=HYBRID, architecture=architecture,
                    settings=settings)  # fmt: skip
    assert (rule in found) == wrong


@pytest.mark.parametrize(
    ("engine", "version", "flag", "rule"),
    [
        ("vllm", "0.28.0", "--speculative-config.quantization", "draft-quantized-on-loading"),
        ("sglang", "0.5.23", "--quantization", "draft-inherits-quantization"),
        ("sglang", "0.5.23", "--speculative-adaptive", "adaptive-steps"),
    ],
)
def test_what_is_said_of_the_draft_without_an_error_is_warned_of(
    registry, engine, version, flag, rule
) -> None:
    settings = {flag: ("fp8",)}
    assert rule in ids(situation(registry, engine, version, settings=settings), "warn")
    assert rule not in ids(situation(registry, engine, version))


@pytest.mark.parametrize(
    ("engine", "given"),
    [
        ("vllm", {"settings": {"--logits-processors": ("a:B",)}}),
        ("sglang", {"settings": {"attention_backend": ("fa4",)}, "architecture": "blackwell-rtx"}),
        ("sglang", {"settings": {"dp_attention": ()}}),
        ("sglang", {"settings": {"--attn-cp-size": ("2",)}}),
    ],
)
def test_what_the_newest_release_has_learnt(registry, engine, given) -> None:
    assert (
        refused(registry, engine, registry.engines[engine].releases[-1].version, **given) == set()
    )


def test_gemma_on_ampere_with_fp8_of_the_drafts_own(registry) -> None:
    """The target is what triton_attn is forced on; the draft's cache may be read by another."""
    at = {"target": GEMMA, "architecture": "ampere"}
    assert "gemma-fp8-ampere" in refused(registry, kv_dtype="fp8", **at)
    own = {"draft_kv_dtype": ("fp8",)}
    assert "gemma-fp8-ampere" not in refused(registry, settings=own, **at)


@pytest.mark.parametrize(
    ("target", "backend", "dtype", "wrong"),
    [
        (TARGET, None, None, False),  # flashinfer reads it
        (TARGET, "triton", None, True),
        (TARGET, "triton", "fp8_e4m3", True),
        (TARGET, "triton", "fp8_e5m2", False),
        (GPT_OSS, None, None, True),
        (GPT_OSS, None, "fp8_e4m3", True),
        (GPT_OSS, None, "fp8_e5m2", False),
        (GPT_OSS, "fa3", None, False),
        (GEMMA, None, None, True),
    ],
)
def test_triton_reads_no_e4m3_on_ampere(registry, target, backend, dtype, wrong) -> None:
    said = {"attention_backend": backend, "kv_dtype": dtype}
    settings = {name: (word,) for name, word in said.items() if word}
    at = {"target": target, "kv_dtype": "fp8", "settings": settings}
    found = refused(registry, "sglang", "0.5.23", architecture="ampere", **at)
    assert any(rule.endswith("-ampere") for rule in found) == wrong
    assert not any("-ampere" in rule for rule in refused(registry, "sglang", "0.5.23", **at))
