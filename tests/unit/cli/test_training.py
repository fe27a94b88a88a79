"""What of a training is refused before anything is made, fetched or asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from dflash_deploy.cli import _training
from dflash_deploy.errors import DoesNotFit, UsageError
from dflash_deploy.hub import disk
from dflash_deploy.model_config import HUB_ID
from dflash_deploy.registry import load
from dflash_deploy.train import estimate, recipe
from tests.unit.train import small

TARGET = load(user=False).find("smollm2-135m").target


def test_where_all_answers_are_nobody_is_asked_again(tmp_path):
    assert not _training.answered(tmp_path)
    for name in recipe.ANSWERS:
        (tmp_path / name).write_text("")
    assert _training.answered(tmp_path)


def test_a_draft_is_not_trained_from_the_place_where_it_will_stand(tmp_path):
    plan = small.recipe(draft="org/tiny-DFlash", start=str(tmp_path / "tiny-DFlash"))
    with pytest.raises(UsageError, match="is where this run's own draft comes to stand"):
        _training.check(tmp_path, plan, TARGET)
    _training.check(tmp_path / "other", plan, TARGET)


def test_an_old_run_with_other_options_is_told_by_a_dry_run_too(tmp_path):
    plan = small.recipe(draft="org/tiny-DFlash", steps=5)
    recipe.begin(tmp_path, plan)
    _training.check(tmp_path, plan, TARGET)
    other = small.recipe(draft="org/tiny-DFlash", steps=6)
    with pytest.raises(UsageError, match="holds a run with steps 5, not 6"):
        _training.check(tmp_path, other, TARGET)


def test_what_the_folder_holds_already_needs_no_room(tmp_path, monkeypatch):
    size = estimate.size_of(TARGET)
    plan = small.recipe()
    foreseen = estimate.estimate(plan, size, estimate.CPU)
    monkeypatch.setattr(disk, "free", lambda _: int(foreseen.disk_bytes) - 100)
    with pytest.raises(DoesNotFit, match="are free at") as caught:
        _training.check_disk(tmp_path, plan, foreseen)
    assert caught.value.hint == "--output FOLDER on a larger disk"
    (tmp_path / "answers.jsonl").write_bytes(b"x" * 100)
    _training.check_disk(tmp_path, plan, foreseen)


def test_a_run_that_was_begun_goes_on_where_room_is_made_and_one_with_its_draft_needs_none(
    tmp_path, monkeypatch
):
    size = estimate.size_of(TARGET)
    plan = small.recipe()
    foreseen = estimate.estimate(plan, size, estimate.CPU)
    monkeypatch.setattr(disk, "free", lambda _: 0)
    recipe.begin(tmp_path, plan)
    with pytest.raises(DoesNotFit) as caught:
        _training.check_disk(tmp_path, plan, foreseen)
    assert caught.value.hint == "make room; the same command goes on"
    (tmp_path / "tiny-DFlash").mkdir()
    _training.check_disk(tmp_path, plan, foreseen)


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("/models/org/tiny", "org/tiny"),
        ("/my models/my tiny (2)", "my-models/my-tiny-2-"),
        ("/tiny", "local/tiny"),
    ],
)
def test_a_target_is_called_after_its_folder(folder, name):
    assert _training.called(Path(folder)) == name
    assert HUB_ID.fullmatch(name)


@pytest.mark.parametrize(
    ("there", "asked", "name"),
    [
        (["tiny", "Org/Tiny"], None, "Org/Tiny"),
        (["other"], None, "other"),
        (["other", "org/tiny"], "other", "other"),
        (["other", "org/tiny"], "tiny", None),
    ],
)
def test_a_server_is_asked_for_its_names_before_anything_else(monkeypatch, there, asked, name):
    monkeypatch.setattr("dflash_deploy.measure.connection.served_models", lambda _: there)
    plan = small.recipe(url="http://127.0.0.1:9/v1", served_name=asked)
    if name is not None:
        found = _training.at_server(plan)
        assert found == {"url": "http://127.0.0.1:9", "served_name": name}
        return
    with pytest.raises(UsageError, match="serves other, org/tiny, and not tiny") as caught:
        _training.at_server(plan)
    assert caught.value.hint == "--served-name org/tiny"


def test_of_a_server_s_names_some_are_said(capsys, monkeypatch):
    names = [f"model-{number}" for number in range(300)]
    monkeypatch.setattr("dflash_deploy.measure.connection.served_models", lambda _: names)
    _training.at_server(small.recipe(url="http://127.0.0.1:9"))
    said = capsys.readouterr().err
    assert "model-7 and 292 more: a draft learns from the answers of model-0" in said
