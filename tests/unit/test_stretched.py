"""A context stretched by YaRN: read from the overrides, sized, and told what the draft has seen."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dflash_deploy.errors import DFlashError, DoesNotFit, Unsupported
from dflash_deploy.explain.report import reports
from dflash_deploy.explain.shell import from_text
from dflash_deploy.hardware import parse
from dflash_deploy.plan import Plan, make_plan
from dflash_deploy.registry import load
from dflash_deploy.request import Request
from dflash_deploy.schema import EngineName
from dflash_deploy.stretched import longest_context, said_positions, yarn

REGISTRY = load(user=False)
ROPE = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
WHOLE = ROPE | {"rope_theta": 1000000}
FLAGS: dict[EngineName, str] = {"vllm": "--hf-overrides", "sglang": "--json-model-override-args"}
LONGER = {
    "vllm": "VLLM_ALLOW_LONG_MAX_MODEL_LEN",
    "sglang": "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN",
}


def words(override: Any) -> dict[str, tuple[str, ...]]:
    return {"overrides": (json.dumps(override),)}


def plan(
    engine: EngineName, override: Any, *, model: str = "qwen3-8b", context: int | None = 131072,
    version: str | None = None, gpu: str = "H100",
) -> Plan:  # fmt: skip
    said = (FLAGS[engine], json.dumps(override)) if override else ()
    request = Request(model=model, engine=engine, engine_version=version, context=context,
                      engine_args=said)  # fmt: skip
    return make_plan(REGISTRY, request, parse(gpu, REGISTRY.gpus))


@pytest.mark.parametrize(
    ("override", "longest"),
    [
        ({"rope_parameters": ROPE}, 131072),
        ({"rope_scaling": ROPE}, 131072),
        ({"rope_scaling": {"type": "yarn", "factor": 2}}, 81920),
        ({"text_config": {"rope_parameters": ROPE}}, 131072),
        ({"rope_parameters": ROPE | {"factor": 1.0}}, 40960),
        ({"rope_parameters": ROPE | {"rope_type": "linear"}}, 40960),
        ({"rope_parameters": {"rope_type": "yarn"}}, 40960),
        ({"rope_parameters": ROPE | {"factor": True}}, 40960),
        ({"rope_parameters": ROPE | {"factor": "4"}}, 40960),
        ({"rope_parameters": ROPE | {"factor": float("inf")}}, 40960),
        ({"rope_parameters": ROPE | {"factor": float("nan")}}, 40960),
        ({"rope_parameters": ROPE | {"factor": 1e9}}, 2**31),
        ({"rope_parameters": [ROPE]}, 40960),
        ({"text_config": 3}, 40960),
        ([1], 40960),
    ],
)
def test_the_longest_context_of_an_override(override: Any, longest: int) -> None:
    assert longest_context(40960, words(override)) == longest


def test_a_target_of_unknown_length_is_stretched_from_the_length_that_is_said() -> None:
    assert longest_context(None, words({"rope_scaling": ROPE})) == 131072
    assert longest_context(None, words({"rope_scaling": {"type": "yarn", "factor": 2}})) is None
    assert longest_context(None, {}) is None


def test_what_is_said_of_the_config_s_own_length() -> None:
    assert said_positions(words({"max_position_embeddings": 131072})) == 131072
    assert said_positions(words({"text_config": {"max_position_embeddings": 5}})) == 5
    assert said_positions(words({"max_position_embeddings": "long"})) is None
    assert yarn(words({"text_config": {"rope_scaling": ROPE}})) == ROPE


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_stretched_context_is_served_and_the_draft_s_own_is_told(engine: EngineName) -> None:
    made = plan(engine, {"rope_parameters": WHOLE})
    assert made.context == 131072
    assert "131072" in made.argv
    assert made.env[LONGER[engine]] == "1"
    assert any("was trained on 3072 tokens, of 131072" in said for said in made.warnings)
    (why,) = (choice.why for choice in made.choices if choice.name == "context")
    assert "stretched by YaRN (at most 131072)" in why


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_memory_is_sized_for_the_stretched_context(engine: EngineName) -> None:
    own, long = (
        plan(engine, {"rope_parameters": WHOLE}, context=context).memory
        for context in (32768, 131072)
    )
    assert own is not None
    assert long is not None
    assert long.request == pytest.approx(4 * own.request, rel=0.05)
    with pytest.raises(DoesNotFit, match="131072 tokens"):
        plan(engine, {"rope_parameters": WHOLE}, gpu="L4")


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_beyond_what_is_said_no_context_is_served(engine: EngineName) -> None:
    with pytest.raises(Unsupported, match="at most 131072 tokens, not 131073") as stretched:
        plan(engine, {"rope_parameters": WHOLE}, context=131073)
    assert (stretched.value.hint, stretched.value.detail) == ("--context 131072", None)
    with pytest.raises(Unsupported, match="at most 40960 tokens, not 131072") as plain:
        plan(engine, None)
    assert FLAGS[engine] in str(plain.value.detail)


def test_vllm_needs_consent_to_it_since_0_30_unless_the_override_says_the_length() -> None:
    override = {"rope_parameters": WHOLE}
    consented = {
        version: LONGER["vllm"] in plan("vllm", override, version=version).env
        for version in ("0.28.0", "0.29.0", "0.30.0", "0.33.0")
    }
    assert consented == {"0.28.0": False, "0.29.0": False, "0.30.0": True, "0.33.0": True}
    said = plan("vllm", override | {"max_position_embeddings": 131072})
    assert LONGER["vllm"] not in said.env
    assert LONGER["vllm"] not in plan("vllm", override, context=32768).env


@pytest.mark.parametrize(("engine", "version"), [("vllm", "0.33.0"), ("sglang", "0.5.17")])
def test_an_override_without_theta_is_warned_of(engine: EngineName, version: str) -> None:
    for rope, warned in ((ROPE, True), (WHOLE, False)):
        made = plan(engine, {"rope_parameters": rope}, version=version)
        assert any("no rope_theta" in said for said in made.warnings) == warned


def test_sglang_would_give_the_draft_a_text_config_that_it_does_not_have() -> None:
    override = {"text_config": {"rope_parameters": WHOLE | {"factor": 32.0}}}
    made = plan("vllm", override, model="qwen3.5-27b", context=500000, gpu="H200:4")
    assert made.context == 500000
    with pytest.raises(DFlashError, match="no text_config") as caught:
        plan("sglang", override, model="qwen3.5-27b", context=500000, gpu="H200:4")
    assert "--engine vllm" in str(caught.value.hint)


def test_a_published_command_keeps_its_stretched_context() -> None:
    override = json.dumps({"rope_parameters": WHOLE})
    draft = {"method": "dflash", "model": "z-lab/Qwen3-8B-DFlash-b16", "num_speculative_tokens": 15}
    command = f"vllm serve Qwen/Qwen3-8B --max-model-len 131072 --hf-overrides '{override}'"
    command += f" --speculative-config '{json.dumps(draft)}'"
    consent = f"{LONGER['vllm']}=1"
    for before, verdict in (("", "missing"), (f"{consent} ", "fine")):
        text = from_text(before + command)
        (report,) = reports(text, REGISTRY, None, parse("H100", REGISTRY.gpus))
        assert [item.verdict for item in report.findings if item.part == consent] == [verdict]
        assert isinstance(report.right, Plan)
        assert report.right.context == 131072
        assert override in report.right.argv
