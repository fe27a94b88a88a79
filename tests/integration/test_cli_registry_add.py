"""`registry add`: a draft's config.json becomes an entry that `registry check` and `plan` accept."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dflash_deploy.registry import load
from tests.fakes import hub as fake_hub
from tests.integration.conftest import CommandLine

DEMO = "registry/drafts/smollm2-135m-dflash"
DRAFT: dict[str, Any] = {
    "architectures": ["DFlashDraftModel"], "hidden_size": 4096, "intermediate_size": 12288,
    "num_hidden_layers": 5, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
    "vocab_size": 151936, "block_size": 16, "num_target_layers": 36,
    "dflash_config": {"mask_token_id": 151669, "target_layer_ids": [1, 9, 17, 25, 33]},
}  # fmt: skip
TARGET: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 4096,
    "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
    "vocab_size": 151936, "max_position_embeddings": 40960, "dtype": "bfloat16",
}  # fmt: skip


@pytest.fixture
def hub(bare: CommandLine, tmp_path: Path) -> Iterator[CommandLine]:
    """The command line with the fake hub in the place of the real one."""
    with fake_hub.hub() as url:
        bare.env |= {
            "HF_ENDPOINT": url, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_DISABLE_XET": "1",
            "NO_PROXY": "127.0.0.1", "HF_HUB_OFFLINE": "0",
        }  # fmt: skip
        yield bare


def published(monkeypatch: pytest.MonkeyPatch, **files: Any) -> None:
    """What the fake hub's one repository holds."""
    for name in list(fake_hub.FILES):
        monkeypatch.delitem(fake_hub.FILES, name)
    for name, content in files.items():
        monkeypatch.setitem(fake_hub.FILES, name.replace("_json", ".json"),
                            json.dumps(content).encode())  # fmt: skip


def folder(path: Path, config: Any) -> str:
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps(config))
    return str(path)


def works(dflash: CommandLine, draft: str, *options: str, engine: str = "vllm") -> dict[str, Any]:
    """The entry is valid, and the draft can be planned for at once."""
    where = options[1:] if options else ()  # `check` takes the folder as it is
    checked = dflash.run("registry", "check", *where)
    assert (checked.code, checked.out) == (0, ""), checked.out
    planned = dflash.run("plan", draft, "-e", engine, "--json", *options)
    assert planned.code == 0, planned.err
    return json.loads(planned.out)


STAND_INS = sorted(entry.id for entry in load(user=False).entries.values() if entry.stands_in)


@pytest.mark.parametrize("draft", STAND_INS)
def test_the_target_of_a_draft_whose_target_was_not_known(bare, tmp_path, draft):
    """The shipped entry under the draft's id gives way, and leaves its names."""
    known = json.loads(bare.run("show", draft, "--json").out)["aliases"]
    refused = bare.run("plan", draft, "-e", "vllm")
    assert (refused.code, f"registry add {draft} --target" in refused.err) == (4, True)
    own, its = folder(tmp_path / "draft", DRAFT), folder(tmp_path / "target", TARGET)
    added = bare.run(
        "registry", "add", own, "--id", draft, "--target", "org/Found", "--target-config", its
    )
    assert added.code == 0, added.err
    assert added.out.endswith("models/org/Found.yaml\n")
    assert works(bare, draft)["target"]["id"] == "org/Found"
    for name in ("org/Found", "found", *known):
        assert bare.run("plan", name, "-e", "vllm").code == 0, name


def test_such_a_draft_may_be_one_of_a_target_that_is_known(bare, tmp_path):
    own = folder(tmp_path / "draft", DRAFT)
    added = bare.run(
        "registry", "add", own, "--id", "modal-labs/Kimi-K3-DFlash", "--target", "qwen3-8b"
    )
    assert added.code == 0, added.err
    assert works(bare, "modal-labs/Kimi-K3-DFlash")["target"]["id"] == "Qwen/Qwen3-8B"
    assert bare.run("plan", "kimi-k3", "-e", "vllm").out.count("Qwen/Qwen3-8B")


def test_a_draft_from_the_hub_for_a_target_of_the_registry(hub, monkeypatch, tmp_path):
    published(monkeypatch, config_json=DRAFT)

    added = hub.run("registry", "add", fake_hub.SMALL, "--target", "qwen3-8b")

    assert added.code == 0, added.err
    file = tmp_path / "config/dflash/registry/models/org/small.yaml"
    assert added.out == f"{file}\n"
    assert f"next: dflash plan {fake_hub.SMALL} --engine vllm" in added.err
    assert "vllm from 0.23.0, sglang from 0.5.11" in added.err
    text = file.read_text()
    assert "extends: Qwen/Qwen3-8B" in text
    assert f"config.json of org/small at {fake_hub.COMMIT}" in text
    assert "#   target_layer_ids: dflash_config.target_layer_ids" in text
    plan = works(hub, fake_hub.SMALL)
    assert (plan["block_size"], plan["status"]) == (16, "untested")
    assert plan["draft"]["revision"] == fake_hub.COMMIT
    assert works(hub, fake_hub.SMALL, engine="sglang")["model"] == "Qwen/Qwen3-8B"
    # the target's own draft stays the one that is taken unless told
    assert "DFlash-b16" in hub.run("plan", "qwen3-8b", "-e", "vllm").out


def test_a_target_from_the_hub_gets_an_entry_of_its_own(hub, monkeypatch, tmp_path):
    index = {"metadata": {"total_size": 16381470720}, "weight_map": {"a": "model-1.safetensors"}}
    files = {"config.json": TARGET, "model.safetensors.index.json": index}
    published(monkeypatch)
    for name, content in files.items():
        monkeypatch.setitem(fake_hub.FILES, name, json.dumps(content).encode())
    draft = folder(tmp_path / "mine", DRAFT)

    added = hub.run("registry", "add", draft, "--id", "me/draft", "--target", fake_hub.SMALL,
                    "--json")  # fmt: skip

    assert added.code == 0, added.err
    document = json.loads(added.out)
    assert (document["mode"], document["target"]) == ("new", fake_hub.SMALL)
    assert document["engines"]["sglang"]["first_release"] == "0.5.11"
    target = document["entry"]["target"]
    assert (
        target["weights"][0] | {"gib": 15.26, "revision": fake_hub.COMMIT} == target["weights"][0]
    )
    assert (target["licence"], target["gated"], target["context"]) == (None, None, 40960)
    assert document["entry"]["evidence"] == []
    assert works(hub, "me/draft")["argv"][2] == fake_hub.SMALL


def test_a_targets_config_may_be_in_a_folder(bare, tmp_path):
    draft = folder(tmp_path / "me" / "draft", DRAFT)
    target = folder(tmp_path / "target", TARGET | {"auto_map": {"AutoModel": "x.Y"}})
    words = ("registry", "add", draft, "--target", "Org/Tuned", "--target-config", target)
    added = bare.run(*words, "--id", "me/draft")
    assert added.code == 0, added.err
    assert "remote_code: required" in added.err
    plan = works(bare, "tuned")
    assert (plan["draft"]["id"], plan["target"]["path"]) == ("me/draft", None)


def test_a_draft_that_no_hub_has_is_served_from_its_folder(bare, tmp_path):
    draft = Path(folder(tmp_path / "my draft", DRAFT))
    added = bare.run("registry", "add", str(draft), "--target", "qwen3-8b")
    assert added.code == 0, added.err
    for engine in ("vllm", "sglang"):
        plan = works(bare, "local/my-draft", engine=engine)
        assert plan["draft"]["path"] == str(draft)
        assert any(str(draft) in word for word in plan["argv"])
        explained = bare.run("explain", "--json", "--gpu", "H100", "--", *plan["argv"])
        assert json.dumps(str(draft))[1:-1] in explained.out, explained.err
        assert "no draft that is known" not in explained.out
    cluster = bare.run("plan", "local/my-draft", "-e", "vllm", "--format", "k8s")
    assert (cluster.code, "a folder of this machine" in cluster.err) == (4, True)
    moved = draft.rename(tmp_path / "another")
    gone = bare.run("plan", "local/my-draft", "-e", "vllm")
    assert (gone.code, "there is no config.json" in gone.err) == (3, True)
    again = bare.run("registry", "add", str(moved), "--id", "local/found", "--target", "qwen3-8b")
    assert again.code == 0, again.err
    assert works(bare, "local/found")["draft"]["path"] == str(moved)


def test_a_folder_is_named_in_ones_own_registry_alone(bare, tmp_path):
    draft, theirs = folder(tmp_path / "draft", DRAFT), tmp_path / "theirs"
    words = ("registry", "add", draft, "--target", "qwen3-8b")
    refused = bare.run(*words, "--registry", str(theirs))
    assert (refused.code, "leave --registry out" in refused.err) == (2, True)
    assert not theirs.exists()
    written = bare.run(*words, "--print").out
    (theirs / "models" / "local").mkdir(parents=True)
    (theirs / "models" / "local" / "draft.yaml").write_text(written)
    hostile = bare.run("plan", "local/draft", "-e", "vllm", "--registry", str(theirs))
    assert (hostile.code, "`path` is for weights of your own" in hostile.err) == (3, True)


def test_the_demo_draft_is_as_large_as_its_tensors(bare):
    added = bare.run("registry", "add", DEMO, "--id", "me/demo", "--target", "smollm2-135m",
                     "--json")  # fmt: skip
    (draft,) = json.loads(added.out)["entry"]["drafts"]
    assert (draft["parameters"], draft["gib"], draft["block_size"]) == (15820928, 0.0295, 8)
    works(bare, "me/demo")


def test_a_draft_the_registry_had_not_read_is_filled_in(bare, tmp_path):
    config = {
        "speculators_model_type": "dflash", "aux_hidden_state_layer_ids": [1, 17, 29, 47, 58],
        "mask_token_id": 4, "draft_vocab_size": 32000, "architectures": ["DFlashDraftModel"],
        "speculators_config": {"verifier": {"name_or_path": "google/gemma-4-31B-it"}},
        "transformer_layer_config": {
            "head_dim": 256, "hidden_size": 5376, "intermediate_size": 21504,
            "num_attention_heads": 32, "num_hidden_layers": 5, "num_key_value_heads": 16,
            "vocab_size": 262144,
        },
    }  # fmt: skip
    draft = "RedHatAI/gemma-4-31B-it-speculator.dflash"
    before = bare.run("plan", "gemma-4-31b").out

    added = bare.run("registry", "add", folder(tmp_path / "draft", config), "--id", draft.lower())

    assert added.code == 0, added.err
    assert added.out.endswith("models/google/gemma-4-31B-it.yaml\n")
    assert "later corrections of it do not arrive" in added.err
    assert "no recipe for sglang" in added.err
    plan = works(bare, draft)
    assert (plan["draft"]["id"], plan["block_size"]) == (draft, 8)
    assert bare.run("plan", "gemma-4-31b").out == before


def test_print_writes_nothing(bare, tmp_path):
    draft = folder(tmp_path / "draft", DRAFT)
    words = ("registry", "add", draft, "--id", "me/draft", "--target", "qwen3-8b")
    shown = bare.run(*words, "--print")
    assert shown.code == 0
    assert not (tmp_path / "config").exists()
    bare.run(*words)
    written = tmp_path / "config/dflash/registry/models/me/draft.yaml"
    assert shown.out == written.read_text()


def test_another_folder_and_several_drafts_of_one_target(bare, tmp_path):
    own = tmp_path / "own"
    for name in ("a/draft", "z/draft"):
        draft = folder(tmp_path / name, DRAFT)
        words = ("registry", "add", draft, "--id", name, "--target", "qwen3-8b")
        added = bare.run(*words, "--registry", str(own))
        assert added.code == 0, added.err
    for name in ("a/draft", "z/draft"):
        works(bare, name, "--registry", str(own))


def test_nothing_is_overwritten(bare, tmp_path):
    draft = folder(tmp_path / "draft", DRAFT)
    file = tmp_path / "config/dflash/registry/models/me/draft.yaml"
    file.parent.mkdir(parents=True)
    mine = "extends: openai/gpt-oss-20b\naliases: [mine]\n"
    file.write_text(mine)
    added = bare.run("registry", "add", draft, "--id", "me/draft", "--target", "qwen3-8b")
    assert added.code == 2
    assert "exists, and is not overwritten" in added.err
    assert "--print" in added.err
    assert file.read_text() == mine
    shown = bare.run(
        "registry", "add", draft, "--id", "me/draft", "--target", "qwen3-8b", "--print"
    )
    assert "extends: Qwen/Qwen3-8B" in shown.out


def test_what_the_registry_could_not_read_afterwards_does_not_stay(bare, tmp_path):
    """A file that extends an entry of the same folder is read before it, if its name comes first."""
    target = folder(tmp_path / "target", TARGET)
    first = folder(tmp_path / "one", DRAFT)
    added = bare.run("registry", "add", first, "--id", "me/one", "--target", "Zoo/Tuned",
                     "--target-config", target)  # fmt: skip
    assert added.code == 0, added.err
    second = folder(tmp_path / "two", DRAFT)
    added = bare.run("registry", "add", second, "--id", "AA/two", "--target", "Zoo/Tuned")
    if added.code:
        assert added.code == 3
        assert "--print" in added.err
        assert not list(tmp_path.rglob("two.yaml"))
    works(bare, "me/one")


# --- refusals


@pytest.mark.parametrize(
    ("changes", "target", "code", "said"),
    [
        ({}, "qwen3-4b", 4, "hidden states of 4096"),
        ({"num_target_layers": 64}, "qwen3-8b", 4, "64 layers"),
        ({"dflash_config": {"mask_token_id": 1}}, "qwen3-8b", 4, "#37475"),
        ({"architectures": ["LlamaForCausalLM"]}, "qwen3-8b", 4, "LlamaForCausalLM"),
        ({"block_size": None, "vocab_size": None}, "qwen3-8b", 4, "lacks vocab_size, block_size"),
        ({}, "qwen3-8", 3, "qwen3-8b"),
        ({}, "z-lab/Qwen3-8B-DFlash-b16", 2, "--target Qwen/Qwen3-8B"),
        ({}, None, 2, "Qwen/Qwen3-8B would fit"),
        (
            {"vocab_size": 32000},
            "qwen3-8b",
            4,
            "mask_token_id is 151669, not a whole number of 0 to 31999",
        ),
        (
            {
                "vocab_size": 32000,
                "dflash_config": DRAFT["dflash_config"] | {"mask_token_id": 31999},
            },
            "qwen3-8b",
            4,
            "it knows 32000 tokens, the target 151936",
        ),
        ({"draft_vocab_size": 200000}, "qwen3-8b", 4, "draft_vocab_size is 200000"),
    ],
)
def test_what_does_not_fit_is_refused(bare, tmp_path, changes, target, code, said):
    draft = folder(tmp_path / "draft", DRAFT | changes)
    options = ("--target", target) if target else ()
    refused = bare.run("registry", "add", draft, "--id", "me/draft", *options)
    assert (refused.code, refused.out) == (code, "")
    assert said in refused.err
    assert "hint: " in refused.err
    assert not (tmp_path / "config").exists()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("no-folder",), 2, "neither a folder nor a hub id"),
        (("",), 2, "no draft is named"),
        (("org/small", "--id", "a/b"), 2, "--id"),
        ((".", "--id", "a/b"), 2, "no readable config.json"),
        ((DEMO, "--id", "not-an-id"), 2, "--id OWNER/NAME"),
        ((DEMO, "--id", "a/b", "--target", "smollm2-135m", "--target-config", DEMO), 2,
         "leave --target-config out"),
        ((DEMO, "--id", "z-lab/Qwen3-8B-DFlash-b16", "--target", "smollm2-135m"), 2,
         "dflash plan z-lab/Qwen3-8B-DFlash-b16"),
        ((DEMO, "--id", "a/b", "--target", "smollm2-135m", "--registry", "/proc/none"), 3,
         "cannot be written"),
        ((DEMO, "--id", "a/b", "--target", "smollm2-135m", "--registry", "/dev/null"), 3,
         "it is a file, and a registry is a folder"),
        ((DEMO, "--id", "a/" + "b" * 300, "--target", "smollm2-135m"), 3, "File name too long"),
        (("f" * 5000,), 2, "File name too long"),
        ((DEMO, "--id", "a\nb/c", "--target", "smollm2-135m"), 2, "`a?b/c`: the name has signs"),
        (("a\x1b[31m/b",), 2, "`a?[31m/b`: the name has signs"),
        ((DEMO, "--id", "a/b", "--target", "x\ny/z"), 2, "`x?y/z`: the name has signs"),
        ((DEMO, "--id", "HuggingFaceTB/SmolLM2-135M-Instruct", "--target", "smollm2-135m"), 2,
         "cannot be its own draft"),
    ],
)  # fmt: skip
def test_slips_are_told_from_each_other(bare, words, code, said):
    refused = bare.run("registry", "add", *words)
    assert refused.code == code, refused.err
    assert said in refused.err
    assert refused.err.startswith("error: ")
    assert refused.err.count("\n") == 3  # one line, and a hint below it


def test_the_hubs_refusals_are_told_from_each_other(hub, monkeypatch):
    published(monkeypatch, other_json={})
    for name, said in (
        (fake_hub.GATED, "is gated"),
        ("org/nothing", "does not exist on the hub"),
        (fake_hub.SMALL, "org/small has no config.json"),
    ):
        refused = hub.run("registry", "add", name, "--target", "qwen3-8b", "--json")
        assert refused.code == 6
        assert said in json.loads(refused.out)["error"]["message"]


def test_an_address_that_is_none_is_called_that(bare):
    bad = {"HF_ENDPOINT": "https://[hub", "HF_HUB_OFFLINE": "0"}
    refused = bare.run("registry", "add", "org/small", "--target", "qwen3-8b", env=bad)
    assert (refused.code, "HF_ENDPOINT is no http or https address" in refused.err) == (2, True), (
        refused.err
    )


def test_a_config_that_is_none_is_called_that(hub, monkeypatch):
    published(monkeypatch, config_json=[1])
    refused = hub.run("registry", "add", fake_hub.SMALL, "--target", "qwen3-8b")
    assert (refused.code, "is no JSON object" in refused.err) == (6, True)


def test_without_a_network_it_says_so_and_the_cache_serves(hub, monkeypatch):
    published(monkeypatch, config_json=DRAFT)
    words = ("registry", "add", fake_hub.SMALL, "--target", "qwen3-8b", "--print")
    offline = {"HF_HUB_OFFLINE": "1"}
    refused = hub.run(*words, env=offline)
    assert (refused.code, "HF_HUB_OFFLINE is set" in refused.err) == (6, True)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        nobody = {"HF_ENDPOINT": f"http://127.0.0.1:{closed.getsockname()[1]}"}
        refused = hub.run(*words, env=nobody)
    assert (refused.code, "cannot be reached" in refused.err) == (6, True)
    fetched = hub.run(*words)
    assert fetched.code == 0, fetched.err
    assert hub.run(*words, env=offline).out == fetched.out
