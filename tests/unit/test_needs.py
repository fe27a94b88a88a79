"""Options that want another beside them, on the shipped table and on one of the test's own."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from packaging.version import Version

from dflash_deploy.engine_schema import Wants
from dflash_deploy.flag_tables import flag_table
from dflash_deploy.registry import load
from dflash_deploy.rules import Finding, findings
from dflash_deploy.situation import Situation, settings_of

REGISTRY = load(user=False)
NEWEST = {"vllm": Version("0.33.0"), "sglang": Version("0.5.23")}


def needed(name: str, *words: str, **given: object) -> list[Finding]:
    engine = REGISTRY.engines[name]
    settings = settings_of(name, engine, NEWEST[name], words)
    at = Situation(engine=engine, version=NEWEST[name], target=None, draft=None, settings=settings)
    return [found for found in findings(replace(at, **given)) if found.rule.startswith("needs-of")]


@pytest.mark.parametrize(
    ("engine", "words", "message"),
    [
        ("vllm", ("--enable-eplb",), "--enable-eplb needs --enable-expert-parallel"),
        ("vllm", ("--data-parallel-external-lb",), "--data-parallel-rank or --data-parallel-size"),
        ("vllm", ("--mamba-ssu-algorithm", "auto"), "needs --mamba-backend flashinfer"),
        ("vllm", ("--kv-transfer-config", "{}"), "needs --kv-transfer-config.kv_connector"),
        ("sglang", ("--enable-lora",), "--enable-lora needs --lora-paths or --max-lora-rank"),
        ("sglang", ("--retraction-policy", "priority"), "needs --enable-priority-scheduling"),
        ("sglang", ("--speculative-draft-sink-size", "4"), "--speculative-draft-window-size"),
    ],
)
def test_what_is_said_without_what_it_needs(engine, words, message) -> None:
    found = needed(engine, *words)
    assert found
    assert message in found[0].message
    assert found[0].severity == "refuse"
    assert str(found[0].hint).endswith(f"or leave {words[0]} out")


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        ("vllm", ("--enable-eplb", "--enable-expert-parallel")),
        ("vllm", ("--mamba-ssu-algorithm", "auto", "--mamba-backend", "FlashInfer")),
        ("vllm", ("--kv-transfer-config.kv_connector=NixlConnector",
                  "--kv-transfer-config.kv_role=kv_both")),
        ("sglang", ("--enable-lora", "--lora-paths", "a=b")),
        ("sglang", ("--enable-lora", "--max-lora-rank", "8", "--lora-target-modules", "all")),
        ("sglang", ("--retraction-policy", "default")),
        ("sglang", ("--speculative-draft-sink-size", "4", "--speculative-draft-window-size", "64")),
    ],
)  # fmt: skip
def test_what_it_needs_stands_beside_it(engine, words) -> None:
    assert needed(engine, *words) == []


def test_what_is_not_read_without_another_is_warned_of() -> None:
    (found,) = needed("vllm", "--max-loras", "2")
    assert (found.severity, found.ignored) == ("warn", True)
    assert found.message == "--max-loras does nothing without --enable-lora"
    assert needed("vllm", "--max-loras", "2", "--enable-lora") == []


def test_a_need_of_other_releases_is_none() -> None:
    need = Wants(flags=["--a"], need=["--b"], versions="<0.33", source="this test")
    engine = msgspec.structs.replace(REGISTRY.engines["vllm"], needs=[need])
    assert needed("vllm", engine=engine, settings={"--a": ()}) == []
    assert needed("vllm", engine=engine, settings={"--a": ()}, version=Version("0.32.0"))


@pytest.mark.parametrize("name", NEWEST)
def test_every_option_of_the_table_is_one(name) -> None:
    """Of the newest release, by its full name: what nobody can say needs nothing."""
    table = flag_table(name, NEWEST[name])
    assert table
    spelled = {option.partition(" ")[0]
               for need in REGISTRY.engines[name].needs
               for option in (*need.flags, *need.need)}  # fmt: skip
    known = {row.name for row in table.flags} | {
        f"{row.name}.{key.name}" for row in table.flags for key in row.keys
    }
    assert spelled <= known, spelled - known
