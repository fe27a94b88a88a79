"""Bounds that an engine checks behind its parser, found by the words of its refusals."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
later_checks = import_module("later_checks")


def test_a_release_without_the_words_has_no_bound(tmp_path) -> None:
    hooks = tmp_path / "srt" / "arg_groups"
    hooks.mkdir(parents=True)
    (hooks / "kv.py").write_text('raise ValueError("--swa-prefix-tails should be a non-negative")')
    assert later_checks.bounds("sglang", tmp_path) == {"--swa-prefix-tails": {"least": 0}}


def test_numbers_are_bounded_and_what_the_parser_says_stays() -> None:
    later = {"--x": {"least": 1, "most": 9}}
    row = {"name": "--x", "takes": "one", "kind": "integer", "most": 5}
    assert later_checks.bounded(row, later) == row | {"least": 1}
    text = {"name": "--x", "takes": "one"}
    assert later_checks.bounded(text, later) == text
    assert later_checks.bounded(row | {"name": "--y"}, later) == row | {"name": "--y"}
