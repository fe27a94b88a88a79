"""Every plan of the registry against the engines' own parsers and configurations, without a GPU.

The engines' code comes from PyPI (tools/engine_env.py) on the first run, and from a cache later.
"""

from __future__ import annotations

import json
import re
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from dflash_deploy.errors import EngineError
from dflash_deploy.flag_tables import flag_table, parse
from dflash_deploy.plan import Plan
from dflash_deploy.schema import EngineName
from tests.contract.engine_cases import (
    ENGINES,
    FIXTURES,
    REGISTRY,
    RELEASES,
    TIMEOUT,
    Case,
    Judged,
    Release,
    answers,
    cases,
    engine_env,
    floor,
    folder,
    newest,
    pairs,
)

pytestmark = TIMEOUT
VLLM, OLDER_VLLM, SGLANG, OLDER_SGLANG = RELEASES


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
