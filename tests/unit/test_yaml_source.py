"""Registry files are plain data: whatever YAML could make of them besides is refused, by line."""

from __future__ import annotations

import pytest

from dflash_deploy.errors import RegistryError
from dflash_deploy.yaml_source import line_of, read_yaml


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, "the key `a` stands here twice"),
        ("a:\n  b: 1\n  c: {d: 1, d: 2}\n", 3, "the key `d` stands here twice"),
        ("a: &x 1\nb: *x\n", 1, "anchors and aliases are not used here"),
        ("a: 1\nb: &unused {c: 1}\n", 2, "anchors and aliases are not used here"),
        ("a: 1\nb: *nothing\n", 2, "undefined alias"),
        ("a:\n\tb: 1\n", 2, "cannot start any token"),
        ("? [a]\n: 1\n", 1, "a key is a plain word"),
        ("a: 1\n---\nb: 2\n", 2, "another document"),
        ("a: 1\nb: !!python/object:os.system x\n", 2, "constructor"),
        ("a: !!timestamp 2026-01-01\n", 1, "constructor"),
        ("a: !own 1\n", 1, "constructor"),
        ("a: 1\nb: 'open\n", 3, "unexpected end"),
        ("a: 1\nb: \x00\n", 2, "control characters"),
        ("a: " + "[" * 5000, 1, "nesting"),
        ("", 1, "empty"),
        ("# nothing but a comment\n", 1, "empty"),
    ],
)
def test_what_is_refused_is_named_by_file_and_line(text: str, line: int, says: str) -> None:
    with pytest.raises(RegistryError, match=f"^models/x.yaml:{line}: .*{says}"):
        read_yaml(text, "models/x.yaml")


def test_a_wrong_number_tag_names_the_file() -> None:
    with pytest.raises(RegistryError, match=r"^x\.yaml: .*seven"):
        read_yaml("a: !!int seven", "x.yaml")


@pytest.mark.parametrize(
    "word",
    [
        "on",
        "off",
        "yes",
        "no",
        "y",
        "2026-11-27",
        "010",
        "1:30",
        "1_000",
        "0x1f",
        "1e5",
        "=",
        "<<",
        ".nan",
        ".inf",
    ],
)
def test_words_stay_words(word: str) -> None:
    assert read_yaml(f"a: {word}", "x") == {"a": word}


def test_json_values_are_read_as_such() -> None:
    text = "t: true\nf: False\nn: null\ne:\ni: -12\nz: 0\nx: 2.50\ny: -1.5e3\ns: 'R&D'\nl: [1, a]\n"
    assert read_yaml(text, "x") == {
        "t": True, "f": False, "n": None, "e": None, "i": -12, "z": 0, "x": 2.5, "y": -1500.0,
        "s": "R&D", "l": [1, "a"],
    }  # fmt: skip


def test_a_byte_order_mark_is_no_content() -> None:
    assert read_yaml("\ufeffa: 1", "x") == {"a": 1}


TEXT = """\
aliases: [one]
target:
  weights:
    - name: bf16
      gib: 1.0
    - {name: fp8,
       gib: 2.0}
  minimum:
    tensor_parallel:
      1
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("$", 1),
        ("$.aliases[0]", 1),
        ("$.target", 2),
        ("$.target.weights[0]", 4),
        ("$.target.weights[0].gib", 5),
        ("$.target.weights[1].gib", 7),
        ("$.target.minimum.tensor_parallel", 9),
        ("$.target.minimum.not_there", 8),
        ("$.target.weights[7].gib", 3),
    ],
)
def test_a_path_has_a_line(path: str, line: int) -> None:
    assert line_of(TEXT, path) == line


def test_an_empty_document_has_no_lines() -> None:
    assert line_of("", "$.a") is None
