"""Tables of flags, and how a command line is read with one."""

from __future__ import annotations

import pytest
from packaging.version import Version

from dflash_deploy.flag_tables import (
    Flag,
    FlagTable,
    first_with,
    flag_table,
    last_with,
    parse,
    tables,
)
from dflash_deploy.registry import load
from dflash_deploy.situation import flag_for

TABLE = FlagTable(
    engine="e",
    version="1.0",
    flags=[
        Flag(name="--tp-size", takes="one", aliases=["--tensor-parallel-size", "-tp"]),
        Flag(name="--names", takes="many"),
        Flag(name="--metrics", takes="none"),
        Flag(name="--mode", takes="optional"),
        Flag(
            name="--enable-cache", takes="none", negatives=["--disable-cache", "--no-enable-cache"]
        ),
        Flag(name="--config-json", takes="one", aliases=["-cj"]),
        Flag(name="--level", takes="one", aliases=["-O"]),
        Flag(name="--graph-bs-decode", takes="many"),
        Flag(name="--graph-bs-prefill", takes="many"),
    ],
)


@pytest.mark.parametrize(
    ("argv", "read"),
    [
        (["--tp-size", "2"], [("--tp-size", ("2",))]),
        (["-tp", "2", "model"], [("--tp-size", ("2",)), (None, ("model",))]),
        (["--tp-size=2", "x"], [("--tp-size", ("2",)), (None, ("x",))]),
        (["--names", "a", "b", "--metrics", "c"], [("--names", ("a", "b")), ("--metrics", ()), (None, ("c",))]),
        (["--enable_cache"], [("--enable-cache", ())]),
        (["-O3", "x"], [("--level", ("3",)), (None, ("x",))]),
        (["-O=3"], [("--level", ("3",))]),
        (["-O", "3"], [("--level", ("3",))]),
        (["--no-enable-cache"], [("--no-enable-cache", ())]),
        (["--disable-cache"], [("--no-enable-cache", ())]),
        (["--config-json.method", "dflash"], [("--config-json", ("dflash",))]),
        (["-cj", '{"a": -1}'], [("--config-json", ('{"a": -1}',))]),
        (["--tp-size", "-1"], [("--tp-size", ("-1",))]),
        (["--tensor-par", "2"], [("--tp-size", ("2",))]),
        (["model", "--metrics"], [(None, ("model",)), ("--metrics", ())]),
        (["--mode", "--metrics"], [("--mode", ()), ("--metrics", ())]),
        ([], []),
    ],
)  # fmt: skip
def test_a_command_line_is_read_as_the_engine_reads_it(argv, read):
    found = parse(TABLE, argv)
    assert [(item.flag, item.words) for item in found] == read
    assert all(item.known for item in found)


def test_an_unknown_flag_keeps_its_words():
    given, other = parse(TABLE, ["--nope", "1", "2", "--metrics"])
    assert (given.flag, given.words, given.known) == ("--nope", ("1", "2"), False)
    assert other.flag == "--metrics"


def test_an_abbreviation_of_several_names_them():
    (given,) = parse(TABLE, ["--graph-bs", "4"])
    assert not given.known
    assert given.candidates == ("--graph-bs-decode", "--graph-bs-prefill")


def test_without_a_table_every_flag_passes():
    (given,) = parse(None, ["--anything", "1"])
    assert (given.flag, given.words, given.known) == ("--anything", ("1",), True)


def test_a_release_without_a_table_takes_the_one_before():
    assert flag_table("sglang", Version("0.5.22.post3")).version == "0.5.22"
    assert flag_table("sglang", Version("9.0")).version == tables("sglang")[-1].version
    assert flag_table("sglang", Version("0.1")) is None
    assert flag_table("nothing", Version("1.0")) is None


@pytest.mark.parametrize(
    ("engine", "flag", "first", "last"),
    [
        ("sglang", "--mamba-scheduler-strategy", "0.5.11", "0.5.19"),
        ("sglang", "--mamba-radix-cache-strategy", "0.5.14", "0.5.23"),
        ("sglang", "--cuda-graph-max-bs", "0.5.11", "0.5.19"),
        ("sglang", "--speculative-draft-window-size", "0.5.12.post1", "0.5.23"),
        ("sglang", "--nope", None, None),
        ("vllm", "--default-chat-template-kwargs", "0.20.0", "0.33.0"),
    ],
)
def test_the_life_of_a_flag(engine, flag, first, last):
    assert (first_with(engine, flag), last_with(engine, flag)) == (first, last)


def test_every_spelling_is_in_every_table_of_its_range():
    engines = load(user=False).engines
    for name in ("vllm", "sglang"):
        engine = engines[name]
        for table in tables(name):
            version, names = Version(table.version), table.names()
            for setting in {spelling.setting for spelling in engine.spellings}:
                flag = flag_for(engine, setting, version)
                assert flag is None or flag in names, f"{name} {version}: {flag}"


def test_a_spelling_is_absent_where_its_range_ends():
    """Unless another spelling takes over there: old and new may live side by side for a while."""
    engines = load(user=False).engines
    seen = 0
    for name in ("vllm", "sglang"):
        for spelling in (item for item in engines[name].spellings if item.versions):
            for table in tables(name):
                if flag_for(engines[name], spelling.setting, Version(table.version)) is None:
                    assert spelling.flag not in table.names(), f"{name} {table.version}: {spelling}"
                    seen += 1
    assert seen


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_released_table_is_whole(engine):
    """Every spelling names one flag, and no flag the registry needs lost its kind."""
    for table in tables(engine):
        spellings = [
            name for flag in table.flags for name in (flag.name, *flag.aliases, *flag.negatives)
        ]
        assert len(spellings) == len(set(spellings)), table.version
        assert 200 < len(table.flags) < 1000
        takes = {flag.name: flag.takes for flag in table.flags}
        assert takes["--port"] == "one"
        assert takes["--help"] == "none"
        assert takes["--trust-remote-code"] == "none"


def test_every_release_that_the_registry_lists_has_a_table():
    engines = load(user=False).engines
    for name in ("vllm", "sglang"):
        known = {table.version for table in tables(name)}
        listed = {release.version for release in engines[name].releases}
        assert listed <= known, listed - known
