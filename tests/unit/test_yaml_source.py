"""Registry files are plain data: whatever YAML could make of them besides is refused, by line."""

from __future__ import annotations

import pytest

from dflash_deploy.errors import RegistryError
from dflash_deploy.yaml_source import line_of, read_yaml, text_of


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


FIELD = r"target\.weights\[1\]\.gib"


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("9" * 200_000, r"`9+\.\.\.` cannot be read as a whole number"),
        ("-" + "9" * 5000, "cannot be read as a whole number"),
        ("9" * 4000, "no number that anything has"),
        (str(1 << 63), "no number that anything has"),
        (str(-1 << 63), "no number that anything has"),
        ("1.0e999", "`1.0e999` is no number"),
        ("-1.0e999", "is no number"),
        ("!!float .inf", "is no number"),
        ("!!float .nan", "is no number"),
        ("!!float x", "cannot be read as a number"),
        ('!!float ""', "cannot be read as a number"),
        ("!!int seven", "`seven` cannot be read as a whole number"),
        ('!!int ""', "cannot be read as a whole number"),
        ("!!int 0b2", "cannot be read as a whole number"),
        ("!!int 1:x", "cannot be read as a whole number"),
        ("!!bool maybe", "`maybe` cannot be read as true or false"),
        ("!!int [1]", "expected a scalar"),
        ("!!seq 1", "expected a sequence"),
        ("!!map [1]", "expected a mapping"),
        ("!!str {a: 1}", "expected a scalar"),
        ("!!timestamp 2026-99-99", "constructor for the tag"),
        ("!!binary =", "constructor for the tag"),
        ("&x 1", "anchors and aliases"),
        ('"\\e[2J"', "control characters"),
        ("a\x00b", "control characters"),
        ("a\x1bb", "control characters"),
        ("\ufffe", "control characters"),
        ("{a: 1, a: 2}", "the key `a` stands here twice"),
    ],
)
def test_a_value_the_loader_trips_over_is_named_by_file_line_and_field(
    value: str, says: str
) -> None:
    text = f"# é\ntarget:\n  weights:\n    - name: ü\n    - name: b\n      gib: {value}\nnote: n\n"
    with pytest.raises(RegistryError, match=rf"^m\.yaml:6: {FIELD}.*: .*{says}") as caught:
        read_yaml(text, "m.yaml")
    assert len(caught.value.message) < 500


def test_a_line_that_is_no_text_is_named_with_its_field() -> None:
    data = "# é\r\naliases:\r\n  - ü\r\n  - ".encode() + b"caf\xe9\r\nnote: n\r\n"
    with pytest.raises(RegistryError, match=r"^m\.yaml:4: aliases\[1\]: byte 0xe9 is no UTF-8"):
        text_of(data, "m.yaml")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "latin-1", "shift-jis"])
def test_another_encoding_has_a_line(encoding: str) -> None:
    data = "aliases: [a]\nnote: 日本\n".replace("日本", "é" if encoding == "latin-1" else "日本")
    with pytest.raises(RegistryError, match=r"^m\.yaml:[12]: "):
        read_yaml(text_of(data.encode(encoding), "m.yaml"), "m.yaml")


def test_lines_end_alike() -> None:
    assert text_of(b"a\r\nb\rc\n", "x") == "a\nb\nc\n"


@pytest.mark.parametrize("depth", [1, 5, 6])
def test_a_broken_value_inside_an_alias_that_leads_back_is_found(depth: int) -> None:
    text = "a: &x [" + "[" * depth + "*x, !!int x" + "]" * (depth + 1)
    with pytest.raises(RegistryError, match=r"^x:1: a.*: anchors"):
        read_yaml(text, "x")


@pytest.mark.parametrize("key", ["1", "null", "true", "1.5", "9" * 900, "2026-01-01"])
def test_a_key_is_a_word_whatever_it_looks_like(key: str) -> None:
    assert read_yaml(f"{key}: 1", "x") == {key: 1}


def test_a_key_too_long_for_a_number_is_still_a_word() -> None:
    assert read_yaml("? " + "9" * 5000 + "\n: 1", "x") == {"9" * 5000: 1}


@pytest.mark.parametrize("key", ['"a\\nb"', "? |\n  a\n  b\n"])
def test_a_key_stands_on_one_line(key: str) -> None:
    with pytest.raises(RegistryError, match=r"^x:1: a.b.*: a key is a plain word"):
        read_yaml(f"{key}: 1", "x")


def test_a_name_breaks_no_line() -> None:
    with pytest.raises(RegistryError) as caught:
        read_yaml("", "a\nb\x1b[2J\udcff.yaml", "mend it")
    assert caught.value.message == "a?b?[2J?.yaml:1: the file is empty"
    assert caught.value.hint == "mend it"


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
