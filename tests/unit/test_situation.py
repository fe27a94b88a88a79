"""A command line in the registry's words."""

from __future__ import annotations

import pytest
from packaging.version import Version

from dflash_deploy.flag_tables import FlagTable, parse, tables
from dflash_deploy.registry import load
from dflash_deploy.situation import Situation, by_meaning, said_kv_dtype, said_thinking

REGISTRY = load(user=False)
EVERY = [table for name in REGISTRY.engines for table in tables(name)]


@pytest.mark.parametrize("table", EVERY, ids=lambda table: f"{table.engine}-{table.version}")
def test_every_spelling_reads_back_by_its_meaning(table: FlagTable) -> None:
    """Also where a release's parser calls the option by another of its names."""
    engine = REGISTRY.engines[table.engine]
    for spelling in engine.spellings:
        if spelling.flag in table.names():
            assert spelling.setting in by_meaning(engine, parse(table, [spelling.flag, "1"]))


def test_the_last_word_on_a_flag_wins_and_flags_of_one_meaning_stand_together() -> None:
    words = ("--attention-backend", "fa3", "--attention-backend", "triton",
             "--decode-attention-backend", "flashinfer")  # fmt: skip
    said = by_meaning(REGISTRY.engines["sglang"], parse(tables("sglang")[-1], words))
    assert said == {"attention_backend": ("triton", "flashinfer")}


@pytest.mark.parametrize(
    ("words", "setting", "value"),
    [
        (("--attention-config.backend", "FLASHINFER"), "attention_backend", "FLASHINFER"),
        (("--attention-config", '{"backend": "FLASHINFER"}'), "attention_backend", "FLASHINFER"),
        (("-sc.kv_cache_dtype=auto",), "draft_kv_dtype", "auto"),
        (("-sc", '{"attention_backend": "TRITON_ATTN"}'), "draft_attention_backend", "TRITON_ATTN"),
        (("-sc.num-speculative-tokens-per-batch-size", "[[1,8,7]]"), "schedule", "[[1, 8, 7]]"),
        (("--default-chat-template-kwargs.enable_thinking", "false"), "template_defaults",
         '{"enable_thinking": false}'),
    ],
)  # fmt: skip
def test_a_key_of_a_json_object_has_a_meaning(words, setting, value) -> None:
    assert by_meaning(REGISTRY.engines["vllm"], parse(tables("vllm")[-1], words))[setting] == (
        value,
    )


@pytest.mark.parametrize(
    ("settings", "dtype"),
    [({}, "fp8"), ({"draft_kv_dtype": ("auto",)}, "auto"), ({"draft_kv_dtype": ("bfloat16",)}, "bf16")],
)  # fmt: skip
def test_the_drafts_cache_is_kept_as_the_targets_unless_said(settings, dtype) -> None:
    at = Situation(engine=REGISTRY.engines["vllm"], version=Version("0.33.0"), target=None,
                   draft=None, kv_dtype="fp8", settings=settings)  # fmt: skip
    assert at.draft_kv_dtype == dtype


@pytest.mark.parametrize(
    ("word", "dtype"), [("fp8_e5m2", "fp8"), ("FP8", "fp8"), ("bfloat16", "bf16"), ("x", "auto")]
)
def test_a_kv_dtype(word: str, dtype: str) -> None:
    assert said_kv_dtype({"kv_dtype": (word,)}) == dtype


@pytest.mark.parametrize(
    ("model", "kwargs", "mode"),
    [
        ("qwen3-8b", '{"enable_thinking": false}', "off"),
        ("qwen3-8b", '{"enable_thinking": 1}', "on"),
        ("qwen3-8b", "no json", "on"),
        ("llama-3.1-8b", '{"enable_thinking": true}', None),
    ],
)
def test_a_thinking_mode(model: str, kwargs: str, mode: str | None) -> None:
    target = REGISTRY.find(model).target
    assert said_thinking(target, {"template_defaults": (kwargs,)}) == mode
