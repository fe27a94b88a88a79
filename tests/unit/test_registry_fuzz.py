"""Whatever a registry file holds, reading it ends in a value or in one line that names the file."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dflash_deploy.errors import RegistryError
from dflash_deploy.registry import load, read
from dflash_deploy.resources import registry_root
from dflash_deploy.schema import Model
from dflash_deploy.validate import problems

SHIPPED = sorted((registry_root() / "models").rglob("*.yaml"))
MARK = "the-changed-value"
QUICK = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


def outcome(path: Path) -> Model | RegistryError:
    """The entry, or the one line that says what is wrong with the file."""
    try:
        return read(path, Model)
    except RegistryError as error:
        assert error.exit_code == 3
        assert str(path) in error.message
        assert len(error.message.splitlines()) == 1, error.message
        return error


def place(path: Path, error: RegistryError) -> tuple[int, str]:
    """The line and the field that a refusal names."""
    named = re.fullmatch(re.escape(str(path)) + r":(\d+): ([^:]*): .+", error.message)
    assert named, error.message
    return int(named[1]), named[2]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\x00\x00",
        b"\xff\xfe\x00a",
        "aliases: [ü]".encode("utf-16"),
        "aliases: [\xe9]".encode("latin-1"),
        b"\tindented: x",
        b"a: [1, 2",
        b"a: {" * 3000,
        b"[" * 100_000,
        b"- " * 50_000,
        b"a: &x [*x]",
        b"a: &a [1]\nb: *a",
        b"<<: {a: 1}",
        b"aliases: a\naliases: b",
        b"? {a: b}\n: c",
        b'"a\\nb": c',
        b"'a - at `$`': c",
        b"!!python/object/apply:os.system ['true']",
        b"%TAG ! tag:x,2000:\n---\na: b",
        b"a: 1\n---\nb: 2",
        b'note: "\\e[2J\\a"',
        b"aliases: [x]\nnote: |\n" + b"  long\n" * 200_000,
        b"a" * (2 << 20),
        b"aliases: 9" + b"9" * 5000,
        b"7",
        b"null",
        b"[]",
        b"target: 1e999",
        b"drafts: {}",
        b"recipes: [null]",
        b"evidence: [[[[]]]]",
        b"aliases: [1, true, null]",
    ],
)  # fmt: skip
def test_a_hostile_file_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "models" / "own" / "entry.yaml"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    assert isinstance(outcome(path), RegistryError)


@QUICK
@given(content=st.binary(max_size=300))
def test_bytes_never_crash_the_reader(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "entry.yaml"
    path.write_bytes(content)
    outcome(path)


@QUICK
@given(content=st.text(alphabet="abc:-[]{}#&*!|>'\"%@`,? \n\t", max_size=120))
def test_punctuation_never_crashes_the_reader(tmp_path: Path, content: str) -> None:
    path = tmp_path / "entry.yaml"
    path.write_text(content, encoding="utf-8")
    outcome(path)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


@pytest.mark.parametrize(
    ("content", "line", "field"),
    [
        ("7", 1, "document"),
        ("note: x\ndrafts: {}", 2, "drafts"),
        ("recipes:\n  - null", 2, "recipes[0]"),
        ("aliases: [x, 1]", 1, "aliases[1]"),
        ("evidence: [[[[]]]]", 1, "evidence[0]"),
        ("target:\n  family: x\n  colour: red", 3, "target.colour"),
        ("cautions:\n  - engine: vllm\n    message: 7", 3, "cautions[0].message"),
        ("recipes:\n  - name: x\n    when: {engine: vllm,\n      version: [1]}", 4, "recipes[0].when.version"),
    ],
)  # fmt: skip
def test_a_refusal_names_the_line_and_the_field(
    tmp_path: Path, content: str, line: int, field: str
) -> None:
    path = tmp_path / "entry.yaml"
    path.write_text(content, encoding="utf-8")
    refusal = outcome(path)
    assert isinstance(refusal, RegistryError)
    assert place(path, refusal) == (line, field)


@QUICK
@given(value=VALUES, seed=st.integers(0, 10_000))
def test_a_shipped_entry_with_one_value_changed_loads_or_is_refused(
    tmp_path: Path, value: object, seed: int
) -> None:
    chance = random.Random(seed)
    document = yaml.safe_load(chance.choice(SHIPPED).read_text(encoding="utf-8"))
    holder, key, changed = chance.choice(list(places(document)))
    holder[key] = MARK
    lines = yaml.safe_dump(document).splitlines()
    first = next(number for number, text in enumerate(lines, start=1) if MARK in text)
    holder[key] = value
    path = tmp_path / "models" / "own" / "entry.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    refusal = outcome(path)
    if isinstance(refusal, RegistryError):
        if isinstance(refusal.__cause__, msgspec.ValidationError):  # else it is no YAML of ours
            line, field = place(path, refusal)
            assert field == changed or field.startswith((f"{changed}.", f"{changed}["))
            assert line == first if field == changed else line >= first
        return
    try:
        registry = load(tmp_path, user=False)
    except RegistryError as error:
        assert str(path) in error.message
        return
    wrong = problems(registry.entries.values(), registry.engines)
    assert all(problem.file == str(path) and problem.where for problem in wrong), wrong


def places(node: object, above: str = "") -> Iterator[tuple[Any, Any, str]]:
    """Every container of a document with every key it has, and how an error calls that place."""
    children = (
        [(key, f"{above}.{key}".lstrip("."), child) for key, child in node.items()]
        if isinstance(node, dict)
        else [(i, f"{above}[{i}]", child) for i, child in enumerate(node)]
        if isinstance(node, list)
        else []
    )
    for key, called, child in children:
        yield node, key, called
        yield from places(child, called)
