"""Whose the names of a trained draft are, and what is said of them at the end of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from dflash_deploy.cli import _training, _training_entry
from dflash_deploy.cli._training_entry import entered, others
from dflash_deploy.errors import RegistryError
from dflash_deploy.registry import Entry, Registry, load
from dflash_deploy.resources import registry_root
from tests.unit.train import small

SHIPPED = load(user=False)
DEMO = SHIPPED.find("smollm2-135m")
DRAFT = DEMO.model.drafts[0]


@pytest.fixture(autouse=True)
def _no_registry_was_named(monkeypatch):
    """The commands of notes repeat it, and another test of this process may have named one."""
    monkeypatch.setattr(_training_entry._output, "_registry", None)


def holding(*paths: str | None) -> Registry:
    """A registry whose demo target has drafts of one's own: run/0, run/1 ..., each in its file."""
    entry = DEMO
    for number, path in enumerate(paths):
        mine = replace(DRAFT, id=f"run/{number}", path=path)
        model = replace(entry.model, drafts=[mine, *entry.model.drafts])
        entry = Entry(DEMO.id, model, (f"{number}.yaml", *entry.files), "user", entry)
    names = SHIPPED.names | {f"run/{number}": DEMO.id for number in range(len(paths))}
    return Registry(SHIPPED.entries | {DEMO.id: entry}, SHIPPED.engines, SHIPPED.gpus, names)


def plan(draft: str = "run/0"):
    return small.recipe(target=DEMO.id, draft=draft)


def wanted(**values):
    whole = {
        "target": DEMO.id, "output": None, "registry": None, "weights": None,
        "trust_remote_code": False, "draft_id": None, "start": None, "dry_run": False,
        "json": False, "values": {},
    }  # fmt: skip
    return _training.Wanted(**(whole | values))


@pytest.mark.parametrize(
    ("path", "finished", "free"),
    [
        ("/runs/a/0", False, True),  # its own
        ("/runs/b/0", True, False),
        (None, False, False),  # on a hub, or in a registry that says no folders
        (None, True, True),
    ],
)
def test_a_draft_takes_no_name_that_another_has(path, finished, free):
    error = others(holding(path), plan(), Path("/runs/a/0"), None, finished=finished)
    assert (error is None) == free
    assert free or "another draft" in str(error)
    assert free or "0.yaml" in str(error)


def test_a_name_that_was_taken_while_it_trained_is_told_and_nothing_is_written(
    monkeypatch, capsys, tmp_path
):
    monkeypatch.setattr(_training_entry._entry_file, "below", lambda _: holding("/runs/b/0"))
    draft = tmp_path / "0"
    assert entered(wanted(), plan(), draft, None, finished=False) is None
    said = capsys.readouterr().err
    assert "no registry entry: run/0 is another draft at /runs/b/0" in said
    assert f"hint: dflash registry add {draft} --target {DEMO.id} --id local/NAME" in said


def drafted(folder: Path, **values) -> Path:
    """The demo draft's config, changed; its weights stay where they are."""
    folder.mkdir()
    shipped = registry_root() / str(DRAFT.path)
    config = json.loads((shipped / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | values))
    (folder / "model.safetensors").symlink_to(shipped / "model.safetensors")
    return folder


def test_of_several_drafts_each_has_its_own_file(monkeypatch, capsys, tmp_path):
    places = [drafted(tmp_path / str(number)) for number in range(3)]
    registry = holding(*map(str, places))
    monkeypatch.setattr(_training_entry._entry_file, "below", lambda _: registry)
    for number, place in enumerate(places):
        file = entered(wanted(), plan(f"run/{number}"), place, None, finished=True)
        assert file == Path(f"{number}.yaml")
    assert capsys.readouterr().err == ""


def test_an_entry_of_a_draft_that_stood_there_before_is_told(monkeypatch, capsys, tmp_path):
    place = drafted(tmp_path / "0", block_size=4)
    registry = holding(str(place))
    monkeypatch.setattr(_training_entry._entry_file, "below", lambda _: registry)
    assert entered(wanted(), plan(), place, None, finished=False) == Path("0.yaml")
    said = capsys.readouterr().err
    assert "0.yaml says otherwise of it: block_size 8, not 4" in said
    assert "--print; then mend 0.yaml" in said


@pytest.mark.parametrize(
    ("why", "hint"),
    [
        (OSError(28, "No space left on device"), "hint: mend that; the same command writes it"),
        (None, f"--target {DEMO.id} --id local/NAME --print"),
    ],
)
def test_an_entry_that_cannot_be_written_says_what_this_command_can_do(
    monkeypatch, capsys, why, hint
):
    def added(*_, **__):
        error = RegistryError("it cannot be written", hint=_training_entry._entry_file.BY_HAND)
        raise error from why

    monkeypatch.setattr(_training_entry._entry_file, "below", lambda _: SHIPPED)
    monkeypatch.setattr(_training_entry._adding, "added", added)
    assert entered(wanted(), plan(), Path("/runs/0"), None, finished=False) is None
    said = capsys.readouterr().err
    assert "no registry entry: it cannot be written" in said
    assert hint in said
