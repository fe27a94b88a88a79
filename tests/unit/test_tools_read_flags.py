"""Flags read from a parser: one row each, one line each."""

from __future__ import annotations

import argparse
import json
import sys
from importlib import import_module
from pathlib import Path

import msgspec
import pytest

from dflash_deploy.flag_tables import FlagTable

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
read_flags = import_module("read_flags")


def rows(*adds: tuple[tuple[str, ...], dict[str, object]]) -> dict[str, dict[str, object]]:
    parser = argparse.ArgumentParser(add_help=False)
    for names, options in adds:
        parser.add_argument(*names, **options)  # type: ignore[arg-type]
    return {row.pop("name"): row for row in read_flags.rows_of(parser)}


@pytest.mark.parametrize(
    ("options", "takes"),
    [
        ({}, "one"),
        ({"type": int}, "one"),
        ({"nargs": "?"}, "optional"),
        ({"nargs": "*"}, "many"),
        ({"nargs": "+"}, "many"),
        ({"nargs": 2}, "many"),
        ({"action": "store_true"}, "none"),
        ({"action": "store_const", "const": 3}, "none"),
        ({"action": "append"}, "one"),
    ],
)
def test_how_many_words_follow(options, takes) -> None:
    assert rows((("--x",), options))["--x"]["takes"] == takes


def test_spellings_of_one_flag_share_a_row() -> None:
    found = rows((("-tp", "--tp-size", "--tp"), {}))
    assert found == {"--tp-size": {"takes": "one", "aliases": ["--tp", "-tp"]}}


def test_the_opposite_of_a_switch_is_no_alias() -> None:
    found = rows((("--cache",), {"action": argparse.BooleanOptionalAction}))
    assert found == {"--cache": {"takes": "none", "negatives": ["--no-cache"]}}


def test_a_switch_that_is_only_ever_written_no() -> None:
    assert rows((("--no-cache",), {"action": "store_true"})) == {"--no-cache": {"takes": "none"}}


def test_choices_are_words() -> None:
    found = rows((("--bits",), {"choices": [8, 4], "type": int}))
    assert found == {"--bits": {"takes": "one", "choices": ["4", "8"]}}


def size(word: str) -> int:
    return int(word[:-1]) * 1000 if word.endswith("k") else int(word)


def nothing_or_number(word: str) -> int | None:
    return None if word == "None" else int(word)


def lower(word: str) -> str:
    return word.lower()


@pytest.mark.parametrize(
    ("options", "values"),
    [
        ({}, {}),
        ({"type": str}, {}),
        ({"type": int}, {"kind": "integer"}),
        ({"type": float}, {"kind": "number"}),
        ({"type": size}, {"kind": "size"}),
        ({"type": json.loads}, {"kind": "json"}),
        ({"type": nothing_or_number}, {"kind": "integer", "nullable": True}),
        ({"type": lower, "choices": ["fa3", "triton"]}, {"choices": ["fa3", "triton"], "any_case": True}),
        ({"type": int, "action": "append"}, {}),
    ],
)  # fmt: skip
def test_what_a_converter_takes_is_asked_of_it(options, values) -> None:
    found = rows((("--x",), options))["--x"]
    assert {name: each for name, each in found.items() if name != "takes"} == values


def test_a_table_is_one_line_a_flag_and_reads_back() -> None:
    made = [{"name": "--b", "takes": "one"}, {"name": "--a", "takes": "none", "aliases": ["-a"]}]
    text = read_flags.table("vllm", "1.0", made)
    assert [line for line in text.splitlines() if '"--' in line] == text.splitlines()[1:-1]
    decoded = msgspec.json.decode(text, type=FlagTable)
    assert [flag.name for flag in decoded.flags] == ["--a", "--b"]


def test_a_module_that_lacks_something_is_not_taken_for_absent(tmp_path, monkeypatch) -> None:
    (tmp_path / "wants_more.py").write_text("import a_module_that_nobody_has\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert read_flags._maybe("a_package_that_nobody_has.cli") is None
    with pytest.raises(ModuleNotFoundError, match="a_module_that_nobody_has"):
        read_flags._maybe("wants_more")
