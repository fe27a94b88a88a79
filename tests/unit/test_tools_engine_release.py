"""Taking up a release: what its flags differ in, and what of the registry no longer holds."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from packaging.version import Version

from dflash_deploy.flag_tables import Flag, FlagTable, tables
from dflash_deploy.registry import Registry, load

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
flag_difference = import_module("flag_difference")
engine_release = import_module("engine_release")
REGISTRY = load(user=False)


def table(version: str, *flags: Flag, engine: str = "vllm") -> FlagTable:
    return FlagTable(engine=engine, version=version, flags=list(flags))


def one(name: str, *aliases: str, choices: list[str] | None = None) -> Flag:
    return Flag(name=name, takes="one", aliases=list(aliases), choices=choices)


def changes(before: list[Flag], after: list[Flag]) -> set[tuple[str, str, str]]:
    found = flag_difference.difference(table("1.0", *before), table("2.0", *after))
    return {(change.kind, change.flag, change.detail) for change in found}


def test_nothing_changed() -> None:
    flags = [one("--a", "-a"), one("--b", choices=["x"])]
    assert changes(flags, flags) == set()


def test_a_flag_that_came() -> None:
    assert changes([one("--a")], [one("--a"), one("--b")]) == {("added", "--b", "takes one")}


def test_a_flag_that_went() -> None:
    assert changes([one("--a"), one("--b")], [one("--b")]) == {("removed", "--a", "")}


def test_a_flag_that_went_and_what_looks_like_it() -> None:
    gone = changes([one("--graph-max-bs")], [one("--graph-max-bs-decode"), one("--port")])
    assert ("removed", "--graph-max-bs", "perhaps --graph-max-bs-decode") in gone


def test_a_flag_that_was_renamed() -> None:
    """One spelling of it is left: no guess, the parser says so."""
    found = changes([one("--tensor-parallel", "--tp")], [one("--tp-size", "--tp")])
    assert found == {
        ("renamed", "--tensor-parallel", "is now --tp-size"),
        ("respelled", "--tensor-parallel", "--tp-size"),
    }


@pytest.mark.parametrize(
    ("before", "after", "detail"),
    [
        (["a", "b"], ["b", "c"], "choices +c -a"),
        (None, ["c"], "choices limited from now on +c"),
        (["a"], None, "choices no longer limited -a"),
    ],
)
def test_a_flag_that_takes_other_words(before, after, detail) -> None:
    found = changes([one("--a", choices=before)], [one("--a", choices=after)])
    assert found == {("changed", "--a", detail)}


def test_a_switch_that_takes_a_word_now() -> None:
    found = changes([Flag(name="--a", takes="none")], [one("--a")])
    assert found == {("changed", "--a", "takes one, took none")}


FLAGS = table("1.0", one("--size"), Flag(name="--fast", takes="none"), Flag(name="--all", takes="many"),
              one("--mode", choices=["x", "y"]), one("--mode-of-this"), one("--mode-of-that"))  # fmt: skip


@pytest.mark.parametrize(
    ("argv", "wrong"),
    [
        (["MODEL", "--size", "2", "--fast", "--all", "a", "b", "--mode=x"], []),
        (["--nope", "1"], ["--nope is unknown"]),
        (["--mode-of", "1"], ["--mode-of is unknown (may mean --mode-of-that, --mode-of-this)"]),
        (["--size"], ["--size takes one, is given []"]),
        (["--all", "--fast"], ["--all takes many, is given []"]),
        (["--fast=1"], ["--fast takes none, is given ['1']"]),
        (["--fast", "1"], ["`1` belongs to no flag"]),
        (["--mode", "z"], ["--mode z: not among its choices"]),
    ],
)
def test_what_a_parser_would_refuse(argv, wrong) -> None:
    assert list(flag_difference.faults(FLAGS, argv)) == wrong


def test_where_the_registry_speaks_of_a_flag() -> None:
    at = flag_difference.uses(REGISTRY, "sglang", Version("0.5.23"))
    before = flag_difference.uses(REGISTRY, "sglang", Version("0.5.13"))
    assert "setting graph_batch" in at["--cuda-graph-max-bs-decode"]
    assert "setting graph_batch" in before["--cuda-graph-max-bs"]
    assert "--cuda-graph-max-bs" not in at
    assert "allowed_flags" in at["--page-size"]


def small() -> Registry:
    """Two entries are enough to see a plan break."""
    kept = {REGISTRY.find(name).id for name in ("qwen3-8b", "gpt-oss-20b")}
    return replace(REGISTRY, entries={name: REGISTRY.entries[name] for name in kept})


def without(flag: str, engine: str = "vllm") -> FlagTable:
    """The newest table, as a release that dropped one flag."""
    newest = tables(engine)[-1]
    left = [row for row in newest.flags if row.name != flag]
    assert len(left) == len(newest.flags) - 1
    return msgspec.structs.replace(newest, version="99.0", flags=left)


def test_every_plan_holds_on_the_newest_release() -> None:
    for engine in ("vllm", "sglang"):
        assert list(engine_release.broken_plans(small(), engine, tables(engine)[-1])) == []


def test_a_plan_breaks_once_an_entry() -> None:
    broken = list(engine_release.broken_plans(small(), "vllm", without("--max-num-seqs")))
    assert len(broken) == len(small().entries)
    assert all(line.endswith("--max-num-seqs is unknown") for line in broken)


def test_a_spelling_breaks() -> None:
    newest = tables("vllm")[-1]
    broken = engine_release.broken_spellings(REGISTRY, "vllm", newest, without("--max-num-seqs"))
    (line,) = broken
    assert line.startswith("--max-num-seqs is unknown: setting concurrency")


def test_a_rule_about_a_flag_of_other_releases_is_whole() -> None:
    old = table("0.5.19", one("--other"), engine="sglang")
    gone = [line for line in engine_release.broken_spellings(REGISTRY, "sglang", old, old)
            if "rule" in line and "setting" not in line and "recipe" not in line]  # fmt: skip
    assert gone == []


METADATA = """\
Metadata-Version: 2.4
Name: vllm
Version: 99.0
Requires-Python: <3.15,>=3.11
Requires-Dist: numpy
Requires-Dist: torch==2.15.0
"""


def test_the_line_to_add() -> None:
    line = engine_release.release_line(METADATA.encode(), "99.0")
    assert line == '  - {version: "99.0", torch: "2.15.0", python: ">=3.11"}'


@pytest.mark.parametrize(("flag", "code"), [("--max-num-seqs", 1), ("--ssl-crlfile", 0)])
def test_the_whole_of_it(flag, code, tmp_path, monkeypatch, capsys) -> None:
    (tmp_path / "engines" / "flags").mkdir(parents=True)
    (tmp_path / "vllm.dist-info").mkdir()
    (tmp_path / "vllm.dist-info" / "METADATA").write_text(METADATA)
    new = msgspec.json.encode(without(flag) if code else tables("vllm")[-1]).replace(
        f'"version":"{tables("vllm")[-1].version}"'.encode(), b'"version":"99.0"'
    )
    monkeypatch.setattr(engine_release, "environment", lambda *_: SimpleNamespace(sources=tmp_path))
    monkeypatch.setattr(engine_release, "read", lambda *_: new)
    monkeypatch.setattr(engine_release, "registry_root", lambda: tmp_path)
    monkeypatch.setattr(engine_release, "load", lambda **_: small())
    assert engine_release.main("vllm", "99.0") == code
    assert (tmp_path / "engines" / "flags" / "vllm-99.0.json").read_bytes() == new
    said = capsys.readouterr().out
    assert ("- --max-num-seqs" in said and "registry: setting concurrency" in said) == bool(code)
    assert '- {version: "99.0", torch: "2.15.0", python: ">=3.11"}' in said


@pytest.mark.parametrize("words", [(), ("vllm",), ("other", "1.0"), ("vllm", "newest")])
def test_a_command_that_is_none(words: tuple[str, ...]) -> None:
    tool = Path(__file__).parents[2] / "tools" / "engine_release.py"
    run = subprocess.run(
        [sys.executable, tool, *words], capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout, len(run.stderr.splitlines())) == (2, "", 1)
