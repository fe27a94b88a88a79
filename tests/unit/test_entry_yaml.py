"""An entry written as a file is the same entry when it is read."""

from __future__ import annotations

import msgspec
import pytest

from dflash_deploy.entry_yaml import as_yaml
from dflash_deploy.registry import load, read
from dflash_deploy.schema import Model
from dflash_deploy.yaml_source import read_yaml

ENTRIES = load(user=False).entries


@pytest.mark.parametrize("name", ENTRIES)
def test_every_shipped_entry_survives(name, tmp_path):
    file = tmp_path / "entry.yaml"
    file.write_text(as_yaml(ENTRIES[name].model, ["one", "", "two: {"]), encoding="utf-8")
    assert read(file, Model) == ENTRIES[name].model


@pytest.mark.parametrize(
    "text",
    ["on", "null", "1_000", "0x10", "1:30", "2026-11-27", "a: b", "- a", "& a", "#", "", " x ",
     "1e5", "1.0", "~", "'", '"', "ünïcode ✓", "two\nlines", "x" * 300, "%", "!tag", "`"],
)  # fmt: skip
def test_any_text_stays_text(text):
    model = Model(note=text, aliases=[text, "b"])
    assert msgspec.convert(read_yaml(as_yaml(model), "x"), Model) == model


def test_defaults_are_left_out_and_unknown_facts_are_not():
    model = ENTRIES["meta-models/Muse-Glimmer-30B"].model
    text = as_yaml(model)
    assert "licence: null" in text
    assert "terms:" not in text
    assert "extends:" not in text


def test_comments_stay_comments():
    text = as_yaml(Model(), ["a\nb: c", "\x1b[2J", ""])
    assert text.splitlines()[:3] == ["# ab: c", "# [2J", "#"]
