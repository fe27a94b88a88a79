"""Licences, gates, remote code and parsers of the shipped entries, typed in by hand a second time."""

from __future__ import annotations

from packaging.version import Version

from dflash_deploy import registry
from dflash_deploy.flag_tables import flag_table
from dflash_deploy.registry import Entry
from dflash_deploy.rules import first_release

SHIPPED = registry.load(user=False)
PARSER_FLAGS = ("--reasoning-parser", "--tool-call-parser")


def test_every_published_draft_that_is_restricted_says_so() -> None:
    restricted = {
        draft.id
        for entry in SHIPPED.entries.values()
        for draft in entry.model.drafts
        if draft.licence and any(word in draft.licence.lower() for word in ("nc", "evaluation"))
    }
    assert restricted
    for entry in SHIPPED.entries.values():
        for draft in entry.model.drafts:
            assert draft.id not in restricted or draft.terms, draft.id


def test_licences_gates_and_remote_code() -> None:
    gated = {entry.name for entry in SHIPPED.entries.values() if entry.target.gated}
    remote = {e.name for e in SHIPPED.entries.values() if e.target.remote_code == "required"}
    assert (gated, remote) == ({"llama-3.1-8b"}, {"kimi-k2.5", "kimi-k2.6", "kimi-k2.7-code"})
    kimi = SHIPPED.find("kimi-k2.5").target
    assert kimi.minimum.tensor_parallel == 8
    # Code from elsewhere runs at a commit, never at whatever the branch holds.
    assert all(weights.revision is not None for weights in kimi.weights)
    assert SHIPPED.find("llama-3.1-8b").model.drafts[0].licence is None
    others = {"muse-glimmer-30b": "apache-2.0", "glm-5.1": "mit", "laguna-s-2.1": "OpenMDW-1.1"}
    assert {name: SHIPPED.find(name).target.licence for name in others} == others


def test_what_a_template_does_when_nobody_asks() -> None:
    for name, default in (("laguna-s-2.1", "on"), ("laguna-xs.2", "off")):
        modes = SHIPPED.find(name).target.thinking
        assert modes is not None
        assert (modes.template_key, modes.default) == ("enable_thinking", default)


# drafts whose licence was read, or is on record for their revision; of all others it is not known
LICENCES = {
    "apache-2.0": {
        "dflash-deploy/SmolLM2-135M-Instruct-DFlash",
        "reflection/Beam-1.0-501B-A23B-DFlash2",
        "z-lab/Muse-Glimmer-30B-DFlash2",
        "z-lab/Qwen3.5-27B-DFlash",
        "z-lab/Qwen3.5-35B-A3B-DFlash",
        "z-lab/Qwen3.5-122B-A10B-DFlash",
        "z-lab/Qwen3.5-397B-A17B-DFlash",
        "z-lab/Qwen3.8-27B-DFlash2",
        "z-lab/gemma-4-26B-A4B-it-DFlash",
        "z-lab/gemma-4-31B-it-DFlash",
    },
    "mit": {
        "ornith-ai/Ornith-1.5-35B-A3B-DFlash",
        "z-lab/Kimi-K2.5-DFlash",
        "z-lab/Kimi-K2.6-DFlash",
        "z-lab/Qwen3-4B-DFlash-b16",
        "z-lab/Qwen3-Coder-Next-DFlash",
        "z-lab/Qwen3.6-27B-DFlash",
        "z-lab/gpt-oss-20b-DFlash",
        "z-lab/gpt-oss-120b-DFlash",
    },
    "other": {
        "nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4-DFlash",
        "z-lab/MiniMax-M2.5-DFlash",
    },
    "OpenMDW-1.1": {"poolside/Laguna-XS-2.1-DFlash"},
    # These ask for more than to be named.
    "nvidia-evaluation": {"nvidia/MiniMax-M2.7-DFlash"},
    "NVIDIA non-commercial": {"z-lab/Alpamayo-1.5-10B-DFlash"},
    "CC BY-NC-ND": {"incoai/GLM-5.3-DFlash2"},
    "CC BY-NC-ND 4.0": {"incoai/GLM-5.3-Flash-DFlash2"},
}  # fmt: skip

RESTRICTED = {"nvidia-evaluation", "NVIDIA non-commercial", "CC BY-NC-ND", "CC BY-NC-ND 4.0"}


def test_a_drafts_licence_is_one_that_was_read() -> None:
    drafts = [draft for entry in SHIPPED.entries.values() for draft in entry.model.drafts]
    held: dict[str, set[str]] = {}
    for draft in drafts:
        if draft.licence is not None:
            held.setdefault(draft.licence, set()).add(draft.id)
    assert held == LICENCES
    assert {draft.licence for draft in drafts if draft.terms} == RESTRICTED


# vLLM reasoning and tool parser, SGLang reasoning and tool parser; one row for a family that shares them
QWEN3 = ("qwen3", "hermes", "qwen3", "qwen")

QWEN35 = ("qwen3", "qwen3_coder", "qwen3", "qwen3_coder")

CODER = (None, "qwen3_coder", None, "qwen3_coder")

GPT_OSS = (None, "openai", "gpt-oss", "gpt-oss")

GEMMA4 = ("gemma4", "gemma4", "gemma4", "gemma4")

KIMI = ("kimi_k2", "kimi_k2", "kimi_k2", "kimi_k2")

GLM = ("glm45", "glm47", "glm45", "glm47")

LAGUNA = ("poolside_v1", "poolside_v1", "poolside_v1", "poolside_v1")

MINIMAX = ("minimax_m2", "minimax_m2", None, None)

PARSERS = {
    "gpt-oss-20b": GPT_OSS,
    "gpt-oss-120b": GPT_OSS,
    "qwen3-4b": QWEN3,
    "qwen3-8b": QWEN3,
    "qwen3-14b": QWEN3,
    "qwen3-32b-fp8": QWEN3,
    "qwen3-30b-a3b-2507": (None, "hermes", None, "qwen"),
    "qwen3-coder-30b": CODER,
    "qwen3-coder-next": CODER,
    "qwen3.5-4b": QWEN35,
    "qwen3.5-9b": QWEN35,
    "qwen3.5-27b": QWEN35,
    "qwen3.5-35b-a3b": QWEN35,
    "qwen3.5-122b": QWEN35,
    "qwen3.5-397b": QWEN35,
    "qwen3.6-27b": QWEN35,
    "qwen3.6-35b": QWEN35,
    "qwen3.8-27b": QWEN35,
    "qwen3.8-flash-next": QWEN35,
    "ornith-1.5-35b": QWEN35,
    "gemma-4-12b": GEMMA4,
    "gemma-4-26b": GEMMA4,
    "gemma-4-31b": GEMMA4,
    "kimi-k2.5": KIMI,
    "kimi-k2.6": KIMI,
    "kimi-k2.7-code": KIMI,
    "llama-3.1-8b": (None, "llama3_json", None, "llama3"),
    "glm-5.1": GLM,
    "glm-5.2": GLM,
    "glm-5.3": GLM,
    "glm-5.3-flash": GLM,
    "glm-5.3-flash-w4a16": GLM,
    "laguna-s-2.1": LAGUNA,
    "laguna-xs-2.1": LAGUNA,
    "laguna-xs.2": LAGUNA,
    "muse-glimmer": ("muse_glimmer", "muse_glimmer", "muse", "muse"),
    "muse-spark": ("muse", "muse", "muse", "muse"),
    "nemotron-3.5-lightning": ("nemotron_v3", "qwen3_xml", "nemotron_3", "qwen3_coder"),
    "beam-1.0": ("beam", "beam", "beam", "beam"),
    "deepseek-v4-flash": ("deepseek_v4", "deepseek_v4", "deepseek-v4", "deepseekv4"),
    "mimo-v2.5-pro": ("mimo", "mimo", "mimo", "mimo"),
    # No release of SGLang serves these with DFlash.
    "minimax-m2.5": MINIMAX,
    "minimax-m2.7": MINIMAX,
    # The demo target was not trained to call tools; the others are no chat models.
    "smollm2-135m": (None, None, None, None),
    "alpamayo-1.5-10b": (None, None, None, None),
    "alpamayo-r1-10b": (None, None, None, None),
    "kimi-k3": (None, None, None, None),
    "kimi-k3.1": (None, None, None, None),
    "mistral-small-4-119b": (None, None, None, None),
    "nemotron-3-super": (None, None, None, None),
    "nemotron-3-ultra": (None, None, None, None),
}


def parsers(entry: Entry, engine: str) -> tuple[str | None, str | None]:
    found = next((each for each in entry.target.parsers if each.engine == engine), None)
    return (found.reasoning, found.tool) if found else (None, None)


def test_every_entry_has_the_parsers_of_its_family() -> None:
    stated = {SHIPPED.find(name).id: names for name, names in PARSERS.items()}
    held = {
        entry.id: parsers(entry, "vllm") + parsers(entry, "sglang")
        for entry in SHIPPED.entries.values()
    }
    assert held == stated


def test_sglang_takes_the_parsers_from_the_first_release_that_serves_a_draft() -> None:
    engine = SHIPPED.engines["sglang"]
    for entry in SHIPPED.entries.values():
        firsts = [first_release(engine, entry.target, draft) for draft in entry.model.drafts]
        first = min((Version(found.version) for found in firsts if found), default=None)
        for release in engine.releases if first else ():
            version = Version(release.version)
            table = flag_table("sglang", version) if version >= first else None
            for name, flag in zip(parsers(entry, "sglang"), PARSER_FLAGS, strict=True):
                known = table.names()[flag].choices if table else None
                assert known is None or name is None or name in known, (entry.id, version, name)
