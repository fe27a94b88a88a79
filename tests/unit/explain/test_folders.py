"""Servers of folders: which pair they are, by what the command says of them."""

from __future__ import annotations

import shlex
from dataclasses import replace

import msgspec
import pytest

from dflash_deploy.errors import UnknownModel
from dflash_deploy.explain.manifest import pasted
from dflash_deploy.explain.report import reports
from dflash_deploy.explain.shell import from_text
from dflash_deploy.hardware import parse as cards
from dflash_deploy.plan import Plan, make_plan
from dflash_deploy.registry import Entry, Registry
from dflash_deploy.request import Request

TARGET, DRAFT = "Qwen/Qwen3-8B", "z-lab/Qwen3-8B-DFlash-b16"
CACHE = "/root/.cache/huggingface/hub"
IN_CACHE = f"{CACHE}/models--Qwen--Qwen3-8B/snapshots/0123abc"
DRAFT_IN_CACHE = f"{CACHE}/models--z-lab--Qwen3-8B-DFlash-b16/snapshots/0123abc/"
IMAGE = "docker run --gpus all -v {} vllm/vllm-openai:v0.33.0 "


def vllm(target: str, draft: str, further: str = "") -> str:
    config = f'{{"method": "dflash", "model": "{draft}", "num_speculative_tokens": 15}}'
    return f"vllm serve {target} --speculative-config '{config}' {further}"


def sglang(target: str, draft: str, further: str = "") -> str:
    return (
        f"sglang serve --model-path {target} --speculative-algorithm DFLASH"
        f" --speculative-draft-model-path {draft} {further}"
    )


def contained(mount: str, *folders: str) -> str:
    return IMAGE.format(mount) + vllm(*folders).removeprefix("vllm serve ")


def told(report) -> dict[str, str]:
    """What the folders are taken for."""
    return {i.part: i.message for i in report.findings if " is taken for " in i.message}


def words(report) -> list[str]:
    assert isinstance(report.right, Plan), report.right
    return shlex.split(report.right_text.replace("\\\n", " ").replace("&&", " "))


def among(registry: Registry, shared: str, *names: str) -> Registry:
    """The targets of `shared`, and more that have its draft by other names."""
    entry = registry.entries[shared]
    entries, known = dict(registry.entries), dict(registry.names)
    for name in names:
        drafts = [msgspec.structs.replace(entry.model.drafts[0], id=f"{name}-DFlash")]
        recipes = [msgspec.structs.replace(r, draft=None) for r in entry.model.recipes]
        model = msgspec.structs.replace(
            entry.model,
            aliases=[],
            drafts=drafts,
            recipes=recipes,
            evidence=[],
            floors=[],
            cautions=[],
        )
        entries[name] = Entry(name, model, entry.files, "user")
        known |= {name.lower(): name, f"{name}-dflash".lower(): name}
    return replace(registry, entries=entries, names=known)


@pytest.mark.parametrize(
    ("target", "served", "by"),
    [
        ("/models/Qwen3-8B", "", "the folder's name"),
        ("/models/qwen3-8b/", "--served-model-name mine", "the folder's name"),
        ("./Qwen3-8B", "", "the folder's name"),
        ("/models/one", "--served-model-name qwen3-8b", "its served name"),
        ("/models/one", f"--served-model-name mine {TARGET}", "its served name"),
        ("/models/Qwen3-8B", "--served-model-name qwen3-8b", "its served name"),
        (IN_CACHE, "", "its place in the hub's cache"),
        ("/models/one", "", "its draft"),
    ],
)
def test_a_target_is_known_by(explain, target: str, served: str, by: str) -> None:
    report = explain(vllm(target, "/models/Qwen3-8B-DFlash-b16", served))
    assert told(report)["the target"] == f"{target} is taken for {TARGET}, by {by}"
    assert report.right.model == TARGET
    assert words(report)[words(report).index("serve") + 1] == target
    assert "--revision" not in words(report)


@pytest.mark.parametrize(
    ("draft", "by"),
    [
        ("/models/Qwen3-8B-DFlash-b16", "the folder's name"),
        ("../qwen3-8b-dflash-b16", "the folder's name"),
        (DRAFT_IN_CACHE, "its place in the hub's cache"),
    ],
)
@pytest.mark.parametrize("serve", [vllm, sglang])
@pytest.mark.parametrize("target", [TARGET, "/models/Qwen3-8B", "/models/one"])
def test_a_draft_is_known_by(explain, target: str, serve, draft: str, by: str) -> None:
    report = explain(serve(target, draft))
    assert told(report)["the draft"] == f"{draft} is taken for {DRAFT}, by {by}"
    assert (report.right.draft.id, report.right.draft.path) == (DRAFT, draft)
    assert report.right.draft.revision is None
    assert draft in report.right_text
    assert "revision" not in report.right_text.replace("--revision", "", target == TARGET)
    said = {item.part: item for item in report.findings}
    (part,) = [part for part in said if draft in part]
    assert (said[part].verdict, said[part].message) == ("fine", f"the draft for {TARGET}")
    assert "revision" not in said


def test_the_judgement_is_that_of_hub_ids(explain) -> None:
    def rows(target: str, draft: str) -> list[tuple[str, str]]:
        found = explain(vllm(target, draft, "-tp 3 --enable-dbo")).findings
        return [(i.verdict, i.message) for i in found if i.part != "revision"]

    hub, local = rows(TARGET, DRAFT), rows("/models/Qwen3-8B", "/models/Qwen3-8B-DFlash-b16")
    assert [row for row in local if " is taken for " not in row[1]] == hub
    assert len(local) == len(hub) + 2


def test_a_draft_by_its_hub_id_says_whose_it_is(explain) -> None:
    report = explain(vllm("/models/one", DRAFT))
    assert told(report) == {"the target": f"/models/one is taken for {TARGET}, by its draft"}
    other = told(explain(vllm("/models/Qwen3-4B", DRAFT)))["the target"]
    assert other.endswith(f"{TARGET}, by its draft, though the folder's name says Qwen/Qwen3-4B")


def test_a_folder_whose_name_holds_a_key_is_not_repeated(explain) -> None:
    folder = "/m/hf_aBcDeFgHiJkLmNoPqRsTuVwXyZ0123456789/Qwen3-8B"
    report = explain(vllm(folder, DRAFT))
    assert report.right.target.path is None
    assert "hf_" not in report.right_text
    assert words(report)[words(report).index("serve") + 1] == TARGET


def test_a_folder_alone_is_served_with_its_draft(explain) -> None:
    report = explain("vllm serve /models/Qwen3-8B")
    assert "the target" in told(report)
    assert (report.right.target.path, report.right.draft.id) == ("/models/Qwen3-8B", DRAFT)


@pytest.mark.parametrize("serve", [vllm, sglang])
@pytest.mark.parametrize("target", ["/models/Qwen3-8B", TARGET, IN_CACHE])
def test_a_draft_for_another_target_is_wrong(explain, target: str, serve) -> None:
    report = explain(serve(target, "/models/Qwen3-4B-DFlash-b16"))
    (row,) = [i for i in report.findings if "/models/Qwen3-4B" in i.part]
    assert row.verdict == "wrong"
    assert row.message.startswith(f"proposes for Qwen/Qwen3-4B, not for {TARGET}")
    assert (report.right.draft.id, report.right.draft.path) == (DRAFT, None)
    assert "Qwen3-4B" not in report.right_text


def test_names_that_two_targets_share_say_nothing(shipped) -> None:
    known = among(shipped, TARGET, "a/Same", "b/Same")

    def one(text: str):
        (report,) = reports(from_text(text), known, None, cards("H200", known.gpus))
        return report

    report = one(vllm("/models/Same", "/models/Same-DFlash"))
    assert told(report) == {}
    assert isinstance(report.right, UnknownModel)
    named = one(vllm("/models/Same", "/models/Same-DFlash", "--served-model-name b/same"))
    assert (named.right.model, named.right.draft.id) == ("b/Same", "b/Same-DFlash")
    assert one(vllm("a/Same", "/models/Same-DFlash")).right.draft.id == "a/Same-DFlash"
    both = one(vllm("/models/one", "/models/two", "--served-model-name a/same b/same"))
    assert told(both) == {}


@pytest.mark.parametrize(
    ("target", "draft"),
    [
        ("/data/q8", "/data/draft"),
        ("/models/Qwen3-8B-DFlash-b16", "/data/draft"),
        ("/models/Kimi-K3-DFlash", "/data/draft"),
        ("/models/hf_0123456789abcdef/Qwen3-8B", "/data/draft"),
        ("/models--Qwen--Qwen3-8B", "/data/draft"),
    ],
)
def test_what_is_not_found_stays_unknown(explain, target: str, draft: str) -> None:
    report = explain(vllm(target, draft))
    assert told(report) == {}
    assert isinstance(report.right, UnknownModel)
    (row,) = [i for i in report.findings if i.part == f'"model": "{draft}"']
    assert row.message == "no draft that is known here: dflash registry add reads it"


def test_of_two_drafts_of_one_name_none_is_taken(explain) -> None:
    report = explain(vllm("/models/Kimi-K2.6", "/models/Kimi-K2.6-DFlash"), gpu="B200:8")
    assert told(report).keys() == {"the target"}
    (row,) = [i for i in report.findings if "/models/Kimi-K2.6-DFlash" in i.part]
    assert row.message.endswith("z-lab/Kimi-K2.6-DFlash or nvidia/Kimi-K2.6-DFlash")


@pytest.mark.parametrize("folder", ["~/Qwen3-8B", "$HOME/Qwen3-8B", "/models/${ONE}/Qwen3-8B"])
def test_a_folder_that_a_shell_fills_in_is_left_alone(explain, folder: str) -> None:
    report = explain(vllm(folder, f"{folder}-DFlash-b16"))
    assert told(report) == {}
    assert "filled in by a shell" in report.refused


def test_the_command_of_a_plan_is_right(shipped) -> None:
    hardware = cards("H200", shipped.gpus)
    request = Request(
        model="smollm2-135m", engine="vllm", weights="q4_1", target_path="/weights/smollm2-q4_1-1"
    )
    text = shlex.join(make_plan(shipped, request, hardware).argv)
    (report,) = reports(from_text(text), shipped, None, hardware)
    assert not {"wrong", "stale"} & {item.verdict for item in report.findings}
    assert told(report).keys() == {"the target"}
    assert shlex.join(report.right.argv) == text


# Containers.


def test_folders_stay_where_they_are_mounted(explain) -> None:
    report = explain(contained("/d:/m:ro", "/m/Qwen3-8B", "/m/Qwen3-8B-DFlash-b16"))
    said = {item.part: item.verdict for item in report.findings}
    assert said["-v /d:/m:ro"] == "fine"
    assert told(report).keys() == {"the target", "the draft"}
    assert words(report).count("/d:/m:ro") == 1
    assert not [word for word in words(report) if word.startswith("/m/") and ":" in word]
    assert "/m/Qwen3-8B-DFlash-b16" in report.right_text


def test_a_draft_that_is_mounted_nowhere_is_told_as_a_target_is(explain) -> None:
    report = explain(contained("/d:/d", "/d/Qwen3-8B", "/m/Qwen3-8B-DFlash-b16"))
    (row,) = [i for i in report.findings if "/m/Qwen3-8B-DFlash-b16" in i.part]
    assert (row.verdict, row.message) == (
        "wrong", "no folder of the machine is mounted there: -v /m:/m:ro")  # fmt: skip
    assert "/m/Qwen3-8B-DFlash-b16:/m/Qwen3-8B-DFlash-b16:ro" in words(report)


def test_a_mount_for_the_draft_alone(explain) -> None:
    report = explain(contained("/d:/m", TARGET, "/m/Qwen3-8B-DFlash-b16"))
    said = {item.part: item.message for item in report.findings}
    assert said["-v /d:/m"] == "the weights of the draft"


def test_the_hubs_cache_of_a_container_is_found_by_hub_ids(explain) -> None:
    hub = "~/.cache/huggingface:/root/.cache/huggingface"
    report = explain(contained(hub, IN_CACHE, DRAFT_IN_CACHE))
    assert told(report).keys() == {"the target", "the draft"}
    assert (report.right.target.path, report.right.draft.path) == (None, None)
    assert "/root/.cache" not in report.right_text
    assert "wrong" not in {item.verdict for item in report.findings}


@pytest.mark.parametrize(
    ("mount", "folder"),
    [("/:/host", "/host/m"), ("~/hub:/root/.cache/huggingface", "/root/.cache/huggingface"),
     ("/d:/d", ".")],
)  # fmt: skip
def test_a_draft_that_this_container_alone_has_is_found_by_its_hub_id(
    explain, mount: str, folder: str
) -> None:
    report = explain(contained(mount, TARGET, f"{folder}/Qwen3-8B-DFlash-b16"))
    assert "the draft" in told(report)
    assert (report.right.draft.id, report.right.draft.path) == (DRAFT, None)
    assert report.right.draft.revision


def test_a_target_that_may_be_another_is_never_replaced_by_the_hubs(explain) -> None:
    folder = "/root/.cache/huggingface/mine"
    report = explain(contained("~/hub:/root/.cache/huggingface", folder, DRAFT))
    assert report.right.target.path == folder


def test_sglang_in_a_container(explain) -> None:
    command = sglang("/m/Qwen3-8B", "/m/Qwen3-8B-DFlash-b16", "--host 0.0.0.0")
    report = explain(f"docker run --gpus all -p 1:30000 -v /d:/m lmsysorg/sglang:v0.5.23 {command}")
    assert told(report).keys() == {"the target", "the draft"}
    said = words(report)
    assert said[said.index("--model-path") + 1] == "/m/Qwen3-8B"
    assert said[said.index("--speculative-draft-model-path") + 1] == "/m/Qwen3-8B-DFlash-b16"
    assert "--speculative-draft-model-revision" not in said


@pytest.mark.parametrize(
    "volume", ["/d:/m", "${D:-/d}:/m:ro", "{type: bind, source: '${D:-/d}', target: /m}"]
)
def test_compose_with_folders(shipped, volume: str) -> None:
    command = vllm("/m/Qwen3-8B", "/m/Qwen3-8B-DFlash-b16").removeprefix("vllm serve ")
    said = volume if volume.startswith("{type") else f"'{volume}'"
    text = (
        f"services:\n  a:\n    image: vllm/vllm-openai:v0.33.0\n    volumes: [{said}]\n"
        f"    command: >\n      {command}\n"
    )
    (report,) = reports(pasted(text), shipped, None, cards("H200", shipped.gpus))
    assert told(report).keys() == {"the target", "the draft"}
    assert (report.right.model, report.right.draft.id) == (TARGET, DRAFT)
    assert not [i.message for i in report.findings if "mounted there" in i.message]
    assert "/m" in report.right_text
