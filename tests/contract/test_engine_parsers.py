"""Every plan of the registry against the engines' own parsers and configurations, without a GPU.

The engines' code comes from PyPI (tools/engine_env.py) on the first run, and from a cache later.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from packaging.version import Version

from dflash_deploy.errors import DFlashError, EngineError
from dflash_deploy.flag_tables import flag_table, parse
from dflash_deploy.hardware import parse as cards
from dflash_deploy.plan import Plan, make_plan
from dflash_deploy.registry import Registry
from dflash_deploy.request import Request
from dflash_deploy.schema import EngineName
from tests.contract.engine_cases import (
    COUNT,
    ENGINES,
    FIXTURES,
    REGISTRY,
    RELEASES,
    Case,
    Release,
    answers,
    as_case,
    cases,
    engine_env,
    floor,
    folder,
    judge,
    newest,
    pairs,
)

pytestmark = pytest.mark.timeout(1200)  # the first run fetches the engines and torch
VLLM, OLDER_VLLM, SGLANG, OLDER_SGLANG = RELEASES
Judged = tuple[Release, dict[str, dict[str, Any]]]


@dataclass(frozen=True)
class Refused:
    """A command line that this project refuses and the engine rejects, and the words of both.

    `extra` goes behind the plan's own words, `recipe` changes what the entry's recipe says,
    `config` the speculative config, and `without` takes flags out; `asks` says to this project
    what `extra` says to the engine. Where `rule` is None no plan says it, and why is in `says`.
    """

    release: Release
    says: str
    rule: str | None = None
    """Its id in registry/engines, or a part of the refusal."""
    model: str = "Qwen/Qwen3-8B"
    gpu: str = "H100"
    extra: tuple[str, ...] = ()
    recipe: dict[str, str] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    asks: dict[str, Any] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    planned_for: str | None = None
    """The release whose plan is shown to this one; None: its own."""

    def __str__(self) -> str:
        words = [*self.extra, *map(str, [*self.recipe.values(), *self.config, *self.env])]
        without = [f"without {flag}" for flag in self.without]
        return " ".join([str(self.release), self.model.split("/")[-1], self.gpu, *words, *without])


LIMITS = ("--max-num-batched-tokens", "--max-num-seqs")
DRAFT = "draft_attention_backend"
FP8 = {"kv_dtype": "fp8"}
REFUSED = (
    # vLLM 0.26.0
    Refused(OLDER_VLLM, "['DFlash2DraftModel'] are not supported", "is too old for qwen3.8-27b", "Qwen/Qwen3.8-27B", planned_for=VLLM.version),
    Refused(OLDER_VLLM, "max_num_scheduled_tokens is set to -6144", without=LIMITS),
    Refused(OLDER_VLLM, "max_num_scheduled_tokens is set to -384", "batched-tokens", extra=("--max-num-batched-tokens", "512")),
    Refused(OLDER_VLLM, "unrecognized arguments: --disable-prefix-caching", extra=("--disable-prefix-caching",)),
    Refused(OLDER_VLLM, "Pipeline parallelism is not supported", "pipeline-parallel-none", "openai/gpt-oss-20b", extra=("--pipeline-parallel-size", "2")),
    Refused(OLDER_VLLM, "kv_cache_dtype not supported", "draft-backend-fp8", gpu="A100", recipe={DRAFT: "flash_attn"}, options=FP8),
    Refused(OLDER_VLLM, "attention sinks not supported", "attention-sinks", "openai/gpt-oss-20b", "A100", extra=("--attention-backend", "flash_attn")),
    # vLLM 0.33.0
    Refused(VLLM, "`num_speculative_tokens` was not provided", config={"num_speculative_tokens": None}),
    Refused(VLLM, "Input should be 'ngram', 'draft_model'", config={"method": "dflash2"}),
    Refused(VLLM, "Unexpected keyword argument", config={"block_size": 16}),
    Refused(VLLM, "does not support: DFlash candidate-head drafts", None, "Qwen/Qwen3.8-27B", env={"VLLM_USE_V2_MODEL_RUNNER": "0"}),
    Refused(VLLM, "Unknown attention backend: 'NOPE'", "draft-backend-known", recipe={DRAFT: "nope"}),
    Refused(VLLM, "non-causal attention not supported", "draft-backend-known", recipe={DRAFT: "flashmla"}),
    Refused(VLLM, "FP8 KV cache requires FA3 on SM90", "draft-backend-fp8", gpu="A100", recipe={DRAFT: "flash_attn"}, options=FP8),
    Refused(VLLM, "FP8 KV cache requires FA3 on SM90", "draft-backend-fp8", gpu="RTX-5090", recipe={DRAFT: "flash_attn"}, options=FP8),
    Refused(VLLM, "does not have enough slots", "batched-tokens", extra=("--max-num-batched-tokens", "16"), options={"concurrency": 1}),
    Refused(VLLM, "Consider increasing max_num_batched_tokens", extra=("--enable-lora",), without=LIMITS),
    Refused(VLLM, "Consider increasing max_num_batched_tokens", "lora-budget", extra=("--enable-lora", "--max-num-batched-tokens", "512")),
    Refused(VLLM, "heads (32) must be divisible by tensor parallel size (3)", "draft-heads", extra=("--tensor-parallel-size", "3"), asks={"tensor_parallel": 3}),
    Refused(VLLM, "Fast prefill optimization for KV sharing is not compatible", "kv-sharing", extra=("--kv-sharing-fast-prefill",)),
    Refused(VLLM, "attention sinks not supported", "attention-sinks", "openai/gpt-oss-20b", "RTX-5090", extra=("--attention-backend", "flashinfer")),
    Refused(VLLM, "attention sinks not supported", "attention-sinks", "openai/gpt-oss-20b", "A100", extra=("--attention-config.backend", "FLASH_ATTN")),
    Refused(VLLM, "sink", "attention-sinks-large", "openai/gpt-oss-20b", "H100", extra=("--attention-backend", "flex_attention")),
    Refused(VLLM, "Unknown attention backend: 'NOPE'", "backend-known", extra=("--attention-backend", "NOPE")),
    Refused(VLLM, "FP8 KV cache requires FA3 on SM90", "backend-fp8", gpu="A100", extra=("--attention-backend", "FLASH_ATTN"), options=FP8),
    Refused(VLLM, "non-MLA not supported", "backend-of-latents", extra=("--attention-backend", "TRITON_MLA")),
    Refused(VLLM, "must be greater than or equal to max_num_seqs", "batched-tokens", gpu="B200", extra=("--max-num-batched-tokens", "32")),
    Refused(VLLM, "draft_tensor_parallel_size", "draft-ranks", config={"draft_tensor_parallel_size": 2},
            asks={"engine_args": ("-sc.draft_tensor_parallel_size", "2"), "tensor_parallel": 4}, extra=("--tensor-parallel-size", "4")),
    Refused(VLLM, "draft_tensor_parallel_size", "draft-ranks-misnamed", config={"tensor_parallel_size": 1},
            asks={"engine_args": ("-sc.tensor_parallel_size", "1")}),
    Refused(VLLM, "kv_cache_dtype=nvfp4", "nvfp4-kv-draft", gpu="B200", config={"kv_cache_dtype": "nvfp4"}, asks={"engine_args": ("-sc.kv_cache_dtype", "nvfp4")}),
    # SGLang 0.5.23
    Refused(SGLANG, "only supports pp_size == 1", "pipeline-parallel", extra=("--pp-size", "2")),
    Refused(SGLANG, "requires --enable-dp-lm-head", extra=("--enable-dp-attention", "--dp-size", "2", "--tp-size", "2")),
    Refused(SGLANG, "requires --enable-dp-lm-head", extra=("--attn-dp-size", "2", "--tp-size", "2")),
    Refused(SGLANG, "TRTLLM MHA backend for prefill requires Hopper", "trtllm-ampere", gpu="A100", extra=("--attention-backend", "trtllm_mha")),
    Refused(SGLANG, "GptOssForCausalLM requires one of", "attention-sinks", "openai/gpt-oss-20b", extra=("--attention-backend", "flashinfer")),
    Refused(SGLANG, "Gemma4 only supports trtllm_mha, triton, fa4", "gemma-backend-fa4", "google/gemma-4-31B-it", extra=("--attention-backend", "flashinfer")),
    Refused(SGLANG, "not supported with Flex Attention", "backend-without-speculation", extra=("--attention-backend", "flex_attention")),
    Refused(SGLANG, "--speculative-draft-window-size must be >=", "draft-window", extra=("--speculative-draft-window-size", "8")),
    Refused(SGLANG, "no_buffer do not support overlap schedule", "hybrid-no-buffer", "Qwen/Qwen3.5-27B", extra=("--mamba-radix-cache-strategy", "no_buffer")),
    Refused(SGLANG, "native NVFP4 speculative decoding does not yet support DFLASH", "nvfp4-kv", gpu="B200", extra=("--kv-cache-dtype", "nvfp4")),
    Refused(SGLANG, "is incompatible with speculative decoding", "disaggregation-cache", extra=("--disaggregation-mode", "decode", "--disaggregation-decode-enable-radix-cache")),
    Refused(SGLANG, "Unknown speculative algorithm name: DFLASH2", "would contradict the plan", extra=("--speculative-algorithm", "DFLASH2")),
    Refused(SGLANG, "are set but they differ", extra=("--speculative-dflash-block-size", "8")),
    Refused(SGLANG, "unrecognized arguments: --mamba-scheduler-strategy", None, "Qwen/Qwen3.5-27B", extra=("--mamba-scheduler-strategy", "extra_buffer")),
    Refused(SGLANG, "unrecognized arguments: --speculative-dflash-draft-window-size", extra=("--speculative-dflash-draft-window-size", "4096")),
    Refused(SGLANG, "ambiguous option: --cuda-graph-max-bs", extra=("--cuda-graph-max-bs", "64")),
    Refused(SGLANG, "unrecognized arguments: --disable-piecewise-cuda-graph", extra=("--disable-piecewise-cuda-graph",)),
    Refused(SGLANG, "ambiguous option: --pp could match", extra=("--pp", "1")),
    Refused(SGLANG, "invalid choice: 'fp8'", extra=("--kv-cache-dtype", "fp8")),
    Refused(SGLANG, "--tool-call-parser: invalid choice: 'nope'", extra=("--tool-call-parser", "nope")),
    # SGLang 0.5.17: its parser alone
    Refused(OLDER_SGLANG, "unrecognized arguments: --attn-dp-size", extra=("--attn-dp-size", "2")),
    Refused(OLDER_SGLANG, "unrecognized arguments: --speculative-draft-kv-cache-dtype", extra=("--speculative-draft-kv-cache-dtype", "auto")),
)  # fmt: skip


@pytest.fixture(scope="session", params=RELEASES, ids=str)
def judged(request: pytest.FixtureRequest) -> Judged:
    """A release, and what its own code says of every plan and of every command refused."""
    release: Release = request.param
    plans = [case.message() for case in cases(release)]
    refused = [command(case) for case in REFUSED if case.release == release]
    return release, judge(release, [*plans, *refused])


def test_the_engine_takes_every_plan(judged: Judged) -> None:
    release, verdicts = judged
    rejected: dict[str, list[Case]] = {}
    for case in cases(release):
        verdict = verdicts[case.id]
        if not verdict["ok"]:
            reason = f"{verdict['stage']}: {verdict['message']}"
            rejected.setdefault(reason, []).append(case)
    told = [
        f"{reason}\n  {len(found)} plans, the first {found[0].id}:\n  {shlex.join(found[0].argv)}\n  "
        + "\n  ".join(case.id for case in found[1:9])
        for reason, found in rejected.items()
    ]
    assert not rejected, "\n\n".join([f"{release} rejects, of {len(cases(release))}", *told])


def test_every_pair_was_judged(judged: Judged) -> None:
    """A pair that this release serves has a plan on some card; one with fixtures, to the config."""
    release, _ = judged
    planned = {(case.plan.model, case.plan.draft.id): case.level for case in cases(release)}
    for entry, draft in pairs(release.engine):
        first = floor(release.engine, entry, draft)
        if first is None or Version(first) > Version(release.version):
            continue
        known = folder(entry.id, release.engine) and (draft.path or folder(draft.id, ""))
        level = "config" if known and release != OLDER_SGLANG else "parser"
        assert planned.get((entry.id, draft.id)) == level, (entry.id, draft.id)


def test_the_engine_understands_what_the_plan_means(judged: Judged) -> None:
    release, verdicts = judged
    for case in cases(release):
        said, plan = verdicts[case.id]["resolved"], case.plan
        if case.level == "config":
            assert {name: said[name] for name in ("context", "concurrency", "tensor_parallel")} == {
                "context": plan.context,
                "concurrency": plan.concurrency,
                "tensor_parallel": plan.tensor_parallel,
            }, case.id
            assert OF_ENGINE[release.engine](said, plan), (case.id, said)


def of_vllm(said: dict[str, Any], plan: Plan) -> bool:
    """All requests run at once: 0.33 lowers `active` where their draft tokens do not fit."""
    config = json.loads(plan.argv[plan.argv.index("--speculative-config") + 1])
    backend = said["draft_attention_backend"].lower()
    return bool(
        said["method"] == "dflash"
        and said["draft_tokens"] == plan.block_size - 1
        and said["active"] in (None, plan.concurrency)
        and config.get("attention_backend", backend) == backend
    )


def of_sglang(said: dict[str, Any], plan: Plan) -> bool:
    """The draft's backend is the one said: SGLang takes another for one that it cannot use."""
    words = dict(pairwise(plan.argv))
    backend = said["draft_attention_backend"]
    return bool(
        said["algorithm"] == "DFLASH"
        and said["block_size"] == plan.block_size
        and words.get("--speculative-draft-attention-backend", backend) == backend
    )


OF_ENGINE = {"vllm": of_vllm, "sglang": of_sglang}


def test_the_engine_rejects_what_the_rules_refuse(judged: Judged) -> None:
    release, verdicts = judged
    wrong = {
        str(case): verdicts[str(case)]
        for case in REFUSED
        if case.release == release and case.says not in verdicts[str(case)]["message"]
    }
    assert not wrong, json.dumps(wrong, indent=1)


@pytest.mark.parametrize("case", [case for case in REFUSED if case.rule], ids=str)
def test_the_rules_refuse_it(case: Refused) -> None:
    rules = {rule.id: rule.message for rule in REGISTRY.engines[case.release.engine].rules}
    named = str(case.rule)
    with pytest.raises(DFlashError) as refusal:
        plan_of(case, case.release.version, changed(case))
    assert rules.get(named, named) in refusal.value.message


def test_no_two_refusals_share_a_name() -> None:
    assert Counter(map(str, REFUSED)).most_common(1)[0][1] == 1


def plan_of(case: Refused, version: str, registry: Registry) -> Plan:
    """What is asked by an option of ours is not said again in the engine's words."""
    request = Request(
        model=case.model, engine=case.release.engine, engine_version=version,
        trust_remote_code=True,
        **case.options | (case.asks or {"engine_args": case.extra}),
    )  # fmt: skip
    return make_plan(registry, request, cards(f"{case.gpu}:{COUNT}", REGISTRY.gpus))


def changed(case: Refused) -> Registry:
    """The registry with another recipe for this model, as an overlay could have it."""
    entry = REGISTRY.entries[case.model]
    recipes = [msgspec.structs.replace(recipe, **case.recipe) for recipe in entry.model.recipes]
    model = msgspec.structs.replace(entry.model, recipes=recipes)
    return replace(REGISTRY, entries=REGISTRY.entries | {entry.id: replace(entry, model=model)})


def command(case: Refused) -> dict[str, Any]:
    """The plan without the offence, and then the offence, for the engine to judge."""
    innocent = replace(case, extra=(), asks={})
    plan = plan_of(innocent, case.planned_for or case.release.version, REGISTRY)
    made = as_case(str(case), case.gpu, plan, judge_config=case.release != OLDER_SGLANG)
    words = [*without(made.argv, case.without), *case.extra]
    config = dict(case.config)
    if case.recipe:
        config["attention_backend"] = case.recipe[DRAFT]
    if config:
        at = words.index("--speculative-config") + 1
        said = json.loads(words[at]) | config
        words[at] = json.dumps({name: value for name, value in said.items() if value is not None})
    return made.message() | {"argv": words, "env": made.env | case.env}


def without(argv: tuple[str, ...], flags: tuple[str, ...]) -> Iterator[str]:
    words = iter(argv)
    for word in words:
        if word in flags:
            next(words)
        else:
            yield word


@pytest.mark.parametrize("release", [VLLM, OLDER_VLLM], ids=str)
def test_vllm_has_the_parsers_that_plans_name(release: Release) -> None:
    """Its command line takes any name, and the server fails or parses nothing later."""
    sources = Path(engine_env().environment(*release).env["PYTHONPATH"]) / "vllm"
    for flag, module in (
        ("--tool-call-parser", "tool_parsers"),
        ("--reasoning-parser", "reasoning"),
    ):
        text = (sources / module / "__init__.py").read_text(encoding="utf-8")
        known = set(re.findall(r'^    "([\w.-]+)": \(', text, re.MULTILINE))
        named = {dict(pairwise(case.argv)).get(flag) for case in cases(release)} - {None}
        assert named
        assert named <= known, flag


@pytest.mark.parametrize("engine", ENGINES)
def test_a_pair_is_planned_for_its_first_release_and_the_newest(engine: EngineName) -> None:
    """Some card gets a plan, and no flag that the release lacks; other cards a reason.

    A recipe may need more than its pair: then the first release is refused as one too old.
    """
    for entry, draft in pairs(engine):
        for version in {floor(engine, entry, draft), newest(engine)} - {None}:
            given = [answer for *_, answer in answers(engine, entry, draft, str(version))]
            plans = [answer for answer in given if isinstance(answer, Plan)]
            too_old = all(isinstance(answer, EngineError) for answer in given)
            assert plans or (too_old and version != newest(engine)), (entry.id, draft.id, given[0])
            known = flag_table(engine, Version(str(version)))
            for plan in plans:
                unknown = [said for said in parse(known, plan.argv[2:]) if not said.known]
                assert not unknown, (entry.id, version, unknown)


def test_fixtures_are_what_the_registry_says() -> None:
    """The sizes that both hold; of a repository that has left the registry none is kept."""
    entries = {entry.id: entry for entry in REGISTRY.entries.values()}
    drafts = {draft.id: draft for entry in entries.values() for draft in entry.model.drafts}
    for path in FIXTURES.glob("*/*/config.json"):
        name, config = path.parent.relative_to(FIXTURES).as_posix(), json.loads(path.read_text())
        text = config.get("text_config", config)
        known = entries[name].target if name in entries else drafts[name]
        architecture = known.architecture
        assert config["architectures"] == [architecture], name
        assert known.hidden_size in (None, text["hidden_size"]), name
        keep = text["num_hidden_layers"] - text.get("hybrid_override_pattern", "").count("E")
        assert sum(layer.count for layer in known.layers) in (0, keep), name
        if name in drafts:
            inner = config.get("dflash_config", {}) | config
            draft = drafts[name]
            assert inner["block_size"] == draft.block_size, name
            assert draft.target_layer_ids in (None, inner["target_layer_ids"]), name
            assert draft.mask_token_id in (None, inner["mask_token_id"]), name
