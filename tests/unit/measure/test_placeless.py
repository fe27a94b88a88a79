from __future__ import annotations

import json
from pathlib import Path, PurePath

import pytest

from dflash_deploy.measure.placeless import placeless


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("/home/somebody/res/a.json", "a.json"),
        ("/work/here/res/a.json", "res/a.json"),
        ("--output=/home/somebody/a.json", "--output=a.json"),
        ("-o/home/somebody/a.json", "-oa.json"),
        ("eagle3=/data/drafts/mine", "eagle3=mine"),
        ('{"model": "/data/drafts/mine", "n": 7}', '{"model": "mine", "n": 7}'),
        ("openai/gpt-oss-20b", "openai/gpt-oss-20b"),
        ("http://localhost:8000/v1", "http://localhost:8000/v1"),
        ("--url=http://localhost:8000/v1", "--url=http://localhost:8000/v1"),
        ("../res/a.json", "../res/a.json"),
        ('{"suffix": "/no_think"}', '{"suffix": "/no_think"}'),
        ("and/or/not", "and/or/not"),
    ],
)
def test_a_path_of_the_machine_is_its_name(word: str, shown: str) -> None:
    once = placeless((word,), PurePath("/work/here"))
    assert once == (shown,)
    assert placeless(once, PurePath("/work/here")) == once


def test_without_a_place_to_see_it_from_a_path_is_its_last_name() -> None:
    assert placeless(("/work/here/res/a.json",)) == ("a.json",)


def test_no_report_that_is_kept_here_names_a_folder_of_its_machine() -> None:
    evidence = Path(__file__).resolve().parents[3] / "docs" / "evidence"
    for file in evidence.glob("*.json"):
        command = json.loads(file.read_text()).get("command", "").split()
        assert placeless(command) == tuple(command), file.name
