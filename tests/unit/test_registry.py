"""The registry's layers, its look-ups, and what it says about a file it cannot use."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from dflash_deploy import registry
from dflash_deploy.errors import RegistryError, UnknownModel
from dflash_deploy.hardware import Hardware
from dflash_deploy.overlaid import still_true
from dflash_deploy.plan import make_plan
from dflash_deploy.request import Request
from dflash_deploy.resources import registry_root
from dflash_deploy.schema import Model
from dflash_deploy.validate import problems

QWEN = "Qwen/Qwen3-8B"


@pytest.fixture
def overlay(tmp_path: Path) -> Path:
    (tmp_path / "models" / "Qwen").mkdir(parents=True)
    return tmp_path


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / "models" / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def shipped_text(name: str) -> str:
    return (registry_root() / "models" / f"{name}.yaml").read_text(encoding="utf-8")


# What a broken file is told.


@pytest.mark.parametrize(
    ("text", "line", "field", "says"),
    [
        ("aliases: [a]\ntarget:\n  family: 7\n", 3, "target.family", "Expected `str`, got `int`"),
        ("drafts:\n  - id: a/b\n    block_size: big\n    kind: dflash\n", 3, r"drafts\[0\].block_size", r"`int \| null`"),
        ("drafts:\n  - id: a/b\n    kind: eagle\n", 3, r"drafts\[0\].kind", "Invalid enum value 'eagle'"),
        ("recipes:\n  - name: r\n    when: {engine: tgi}\n", 3, r"recipes\[0\].when.engine", "'tgi'"),
        ("aliases: [a]\ntarget: {famly: x}\n", 2, "target.famly", "unknown field"),
        ("aliases: [a]\nnotes: b\n", 2, "notes", "unknown field"),
        ("aliases: [a]\nfloors:\n  - engine: vllm\n", 3, r"floors\[0\]", "missing required field `version`"),
        ("aliases: [a]\nfloors:\n  - {engine: vllm, version: 0.26, because: b, source: s}\n", 3, r"floors\[0\].version", "got `float`"),
        ("- one\n- two\n", 1, "document", "got `array`"),
    ],
)  # fmt: skip
def test_an_error_names_file_line_and_field(
    overlay: Path, text: str, line: int, field: str, says: str
) -> None:
    path = write(overlay, "own/model", text)
    with pytest.raises(RegistryError, match=f"^{path}:{line}: {field}: .*{says}") as error:
        registry.load(overlay)
    assert error.value.hint == "dflash registry schema"
    assert error.value.exit_code == 3


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("aliases: [a]\naliases: [b]\n", 2, "`aliases` stands here twice"),
        ("aliases: &a [a]\nextends: *a\n", 1, "anchors and aliases"),
        ("target:\n\tfamily: x\n", 2, "cannot start any token"),
        ("", 1, "the file is empty"),
    ],
)
def test_an_unreadable_file_names_file_and_line(
    overlay: Path, text: str, line: int, says: str
) -> None:
    path = write(overlay, "own/model", text)
    with pytest.raises(RegistryError, match=f"^{path}:{line}: .*{says}"):
        registry.load(overlay)


def test_a_file_that_is_no_text_is_named(overlay: Path) -> None:
    path = write(overlay, "own/model", "")
    path.write_bytes(b"note: a\naliases: [caf\xe9]\n")
    with pytest.raises(RegistryError, match=rf"^{path}:2: aliases\[0\]: .*UTF-8") as error:
        registry.load(overlay)
    assert "dflash registry check" in str(error.value.hint)


@pytest.mark.parametrize(
    "text",
    [
        "aliases: [a]\nextends: " + "9" * 200_000,
        "aliases: [a]\nextends: " + "a" * 900_000,
        'aliases: [a]\nextends: "a\\nb"',
        'recipes:\n  - {name: r, when: {engine: "' + "x" * 90_000 + '"}}',
        "aliases: [a, a\x00b]\n",
        'aliases: ["qwen3-4b\\n"]\nextends: Qwen/Qwen3-8B\nnote: x',
    ],
)
def test_whatever_a_file_quotes_an_error_is_one_line_to_read(overlay: Path, text: str) -> None:
    path = write(overlay, "own/model", text)
    with pytest.raises(RegistryError) as error:
        registry.load(overlay)
    assert error.value.message.startswith(str(path))
    assert len(error.value.message) < len(str(path)) + 500
    assert error.value.message.isprintable()
    assert error.value.hint


@pytest.mark.parametrize("name", ["a\nb", "esc\x1b[31m", "\udcff", "a\u2028b"])
def test_a_files_name_can_be_printed(overlay: Path, name: str) -> None:
    write(overlay, f"own/{name}", f"extends: {QWEN}\n")
    with pytest.raises(RegistryError, match="signs that cannot be printed") as error:
        registry.load(overlay)
    assert error.value.message.isprintable()


def test_a_folder_that_cannot_be_looked_into_hides_nothing(
    overlay: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(overlay, "closed/model", f"extends: {QWEN}\n")
    really = os.scandir

    def scandir(path):
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return really(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(RegistryError, match="closed: cannot be read: Permission denied") as error:
        registry.load(overlay)
    assert error.value.hint == f"ls -lb {overlay}/models"


def test_a_link_that_goes_round_is_said(overlay: Path, tmp_path: Path) -> None:
    (overlay / "models" / "Qwen" / "x.yaml").symlink_to("x.yaml")
    with pytest.raises(RegistryError, match=r"x\.yaml: cannot be read: Too many levels"):
        registry.load(overlay)
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(RegistryError, match="round: cannot be read: Too many levels"):
        registry.load(tmp_path / "round")


@pytest.mark.parametrize("name", ["f" * 300, "/dev/null", __file__])
def test_what_is_no_folder_is_said(name: str) -> None:
    with pytest.raises(RegistryError, match="cannot be read") as error:
        registry.load(Path(name))
    assert error.value.hint


def test_a_file_that_does_not_say_its_size_is_not_read_to_its_end() -> None:
    end, start = os.pipe()

    def write_on() -> None:
        with suppress(BrokenPipeError), os.fdopen(start, "wb") as pipe:
            pipe.write(b"a" * (registry.LARGEST + 2))

    writer = threading.Thread(target=write_on)
    writer.start()
    with pytest.raises(RegistryError, match="over 1 MiB"):
        registry.read(Path(f"/dev/fd/{end}"), Model)
    os.close(end)
    writer.join()


# Layers.


def test_an_entry_that_extends_puts_its_recipes_and_evidence_in_front(overlay: Path) -> None:
    path = write(overlay, "mine/tuned", f"""\
extends: {QWEN}
aliases: [tuned-qwen]
recipes:
  - {{name: mine, when: {{engine: vllm}}, block_size: 8, why: w, source: s}}
evidence:
  - {{outcome: verified, engine: vllm, version: "0.33.0", gpu: H100, date: "2026-11-27", block_size: 8, how: h, source: s}}
""")  # fmt: skip
    below = registry.load(user=False).entries[QWEN].model
    entry = registry.load(overlay, user=False).find("tuned-qwen")
    assert entry.id == QWEN
    assert [recipe.name for recipe in entry.model.recipes[:2]] == ["mine", "vllm-h200"]
    assert entry.model.recipes[1:] == below.recipes
    assert entry.model.evidence[0].version == "0.33.0"
    assert entry.model.evidence[1:] == below.evidence
    assert (entry.model.floors, entry.model.target) == (below.floors, below.target)
    assert entry.layer == "extra"
    assert entry.files[0] == str(path)
    assert entry.files[1].endswith(f"{QWEN}.yaml")


def test_an_entry_without_extends_replaces_the_one_below(overlay: Path) -> None:
    text = shipped_text(QWEN).replace("parameters: 8.2B", "parameters: 8.3B")
    write(overlay, QWEN, text.replace("[qwen3-8b]", "[other-name]"))
    found = registry.load(overlay, user=False)
    assert found.entries[QWEN].target.parameters == "8.3B"
    assert found.find("other-name").layer == "extra"
    with pytest.raises(UnknownModel):
        found.find("qwen3-8b")


def test_what_is_extended_must_be_below(overlay: Path) -> None:
    path = write(overlay, "mine/tuned", "extends: Qwen/Qwen9\n")
    with pytest.raises(RegistryError, match=f"^{path}: extends `Qwen/Qwen9`"):
        registry.load(overlay, user=False)


def test_a_name_has_one_owner(overlay: Path) -> None:
    text = shipped_text(QWEN).replace("[qwen3-8b]", "[QWEN3-4B]")
    write(overlay, QWEN, text)
    with pytest.raises(RegistryError, match="`QWEN3-4B` already names Qwen/Qwen3-4B"):
        registry.load(overlay, user=False)


STAND_IN = "modal-labs/Kimi-K3-DFlash"


def test_an_entry_that_stood_in_for_a_target_gives_way_to_one_that_brings_its_draft(
    overlay: Path,
) -> None:
    shipped = shipped_text(STAND_IN)
    write(overlay, "moonshotai/Kimi-K3", shipped)
    found = registry.load(overlay, user=False)
    assert STAND_IN not in found.entries
    for name in ("kimi-k3", STAND_IN, "moonshotai/Kimi-K3"):
        assert found.find(name).id == "moonshotai/Kimi-K3"


def test_no_other_entry_gives_way(overlay: Path) -> None:
    """Neither a file that is laid over a draft's known target, nor one of the same folder."""
    shipped = shipped_text(STAND_IN)
    known = "z-lab/Qwen3-4B-DFlash-b16"
    write(overlay, known, shipped.replace(STAND_IN, known).replace("kimi-k3", "mine"))
    with pytest.raises(RegistryError, match="already names"):
        registry.load(overlay, user=False)
    (overlay / "models" / f"{known}.yaml").unlink()
    write(overlay, STAND_IN, shipped)
    write(overlay, "moonshotai/Kimi-K3", shipped.replace("[kimi-k3]", "[k3]"))
    with pytest.raises(RegistryError, match="already names"):
        registry.load(overlay, user=False)


def test_the_users_layer_is_under_xdg_config_home_and_below_the_extra_one(
    overlay: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "config"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    recipe = (
        "extends: Qwen/Qwen3-8B\nrecipes:\n  - {name: NAME, block_size: 8, why: w, source: s}\n"
    )
    write(home / "dflash" / "registry", "a/user", recipe.replace("NAME", "users"))
    write(overlay, "a/extra", recipe.replace("NAME", "extras"))
    names = [recipe.name for recipe in registry.load(overlay).entries[QWEN].model.recipes]
    assert names[:3] == ["extras", "users", "vllm-h200"]
    assert registry.load(user=False).entries[QWEN].model.recipes[0].name == "vllm-h200"


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match="no such registry folder"):
        registry.load(tmp_path / "nowhere")


# Looking up.


@pytest.mark.parametrize(
    "name", ["qwen3-8b", "Qwen3-8B", "Qwen/Qwen3-8B", "qwen/qwen3-8b", "Z-lab/Qwen3-8B-DFlash-b16"]
)
def test_alias_target_and_draft_find_the_entry(name: str) -> None:
    assert registry.load(user=False).find(name).id == QWEN


def test_an_unknown_name_gets_a_suggestion_and_never_a_guess() -> None:
    shipped = registry.load(user=False)
    with pytest.raises(UnknownModel, match="`qwen3-9b`") as close:
        shipped.find("qwen3-9b")
    assert "qwen3-8b" in str(close.value.hint)
    with pytest.raises(UnknownModel) as far:
        shipped.find("zzzzzz")
    assert far.value.hint == "dflash list"


def test_the_packed_index_says_what_the_yaml_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from_yaml = registry.load(user=False)
    (tmp_path / registry.INDEX).write_bytes(msgspec.json.encode(registry.pack(registry_root())))
    monkeypatch.setattr(registry, "registry_root", lambda: tmp_path)
    from_index = registry.load(user=False)
    assert [entry.model for entry in from_index.entries.values()] == [
        entry.model for entry in from_yaml.entries.values()
    ]
    assert (from_index.engines, from_index.gpus) == (from_yaml.engines, from_yaml.gpus)


def test_a_name_that_extends_need_not_be_a_hub_id(overlay: Path) -> None:
    write(overlay, "mine/anything", f"extends: {QWEN}\n")
    assert set(registry.load(overlay, user=False).entries) == set(registry.load(user=False).entries)


def test_every_shipped_target_reads_back_from_json() -> None:
    for entry in registry.load(user=False).entries.values():
        assert msgspec.json.decode(msgspec.json.encode(entry.model), type=Model) == entry.model


@pytest.mark.parametrize("lost", ["note: mine", "unservable: never"])
def test_an_overlay_that_extends_may_not_carry_what_it_would_lose(overlay: Path, lost) -> None:
    write(overlay, "my/notes", f"extends: openai/gpt-oss-20b\n{lost}\n")
    with pytest.raises(RegistryError, match="keeps its target, floors and notes"):
        registry.load(overlay)


def test_an_unknown_draft_of_an_entry_is_an_error_of_the_registry() -> None:
    entry = registry.load(user=False).find("gpt-oss-20b")
    with pytest.raises(RegistryError, match="no draft `x/y`"):
        entry.draft("x/y")


def test_the_users_own_folder_named_again_is_laid_once(
    overlay: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "user_folder", lambda: overlay)
    write(overlay, "my/qwen", "extends: openai/gpt-oss-20b\naliases: [ours]\n")
    assert registry.load(overlay).find("ours").model.aliases.count("ours") == 1


def test_an_editors_lock_is_no_entry(overlay: Path) -> None:
    path = write(overlay, "my/qwen", "extends: openai/gpt-oss-20b\naliases: [ours]\n")
    (path.parent / ".#qwen.yaml").symlink_to("nobody@nowhere")
    assert registry.load(overlay).find("ours")


def test_a_folder_from_elsewhere_does_not_lead_out_of_itself(
    overlay: Path, tmp_path_factory
) -> None:
    outside = tmp_path_factory.mktemp("elsewhere") / "secret"
    outside.write_text("password: hunter2\n")
    (overlay / "models" / "Qwen" / "x.yaml").symlink_to(outside)
    with pytest.raises(RegistryError, match="leads out of its registry") as error:
        registry.load(overlay, user=False)
    assert "password" not in error.value.message


def draft_text(revision: str, block_size: int = 16) -> str:
    return f"""\
extends: {QWEN}
drafts:
  - {{id: z-lab/Qwen3-8B-DFlash-b16, kind: dflash, architecture: DFlashDraftModel,
     block_size: {block_size}, revision: {revision}, hidden_size: 4096,
     layers: [{{kind: full, count: 5, heads: 32, kv_heads: 8, head_dim: 128}}],
     target_layer_ids: [1, 9, 17, 25, 33], mask_token_id: 151669, context: null,
     trained_context: 3072, thinking: "off", parameters: 1048626432, gib: 1.95, licence: null}}
"""


def test_an_overlay_gives_a_shipped_draft_another_revision(overlay: Path) -> None:
    other = "0123456789abcdef0123456789abcdef01234567"
    write(overlay, "mine/pinned", draft_text(other))
    below = registry.load(user=False).entries[QWEN]
    found = registry.load(overlay, user=False)
    entry = found.entries[QWEN]
    assert [draft.id for draft in entry.model.drafts] == [d.id for d in below.model.drafts]
    assert entry.draft(None).revision == other
    assert [draft.id for draft in entry.own_drafts] == ["z-lab/Qwen3-8B-DFlash-b16"]
    assert entry.model.recipes == below.model.recipes
    assert entry.model.cautions == below.model.cautions
    assert problems([entry], found.engines) == []
    asked = Request(model="qwen3-8b", engine="sglang")
    made = make_plan(found, asked, Hardware())
    assert (made.draft.revision, other in made.argv) == (other, True)
    assert made.status == "untested"  # the figures are of the shipped revision
    assert make_plan(registry.load(user=False), asked, Hardware()).status == "published"


def test_evidence_stays_for_the_same_revision_and_for_one_that_was_not_known(
    overlay: Path,
) -> None:
    shipped = registry.load(user=False).entries
    revision = shipped[QWEN].draft(None).revision
    write(overlay, "mine/again", draft_text(str(revision), block_size=8))
    again = registry.load(overlay, user=False).entries[QWEN]
    assert again.draft(None).block_size == 8
    assert again.model.evidence == shipped[QWEN].model.evidence
    unpinned = shipped["Qwen/Qwen3.5-27B"]
    pinned = msgspec.structs.replace(unpinned.draft(None), revision="0123456789abcdef")
    assert [*still_true(unpinned.model, [pinned])] == unpinned.model.evidence


def test_weights_inside_the_registry_are_refused_for_a_shipped_draft(overlay: Path) -> None:
    text = draft_text("main").replace("kind: dflash,", "kind: dflash, path: drafts/x,")
    write(overlay, "mine/inside", text)
    found = registry.load(overlay, user=False)
    told = [str(one) for one in problems([found.entries[QWEN]], found.engines)]
    assert any("`path` is for weights" in one for one in told)
