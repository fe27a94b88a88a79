"""One condition covers another only if nothing is left over for it, field by field."""

from __future__ import annotations

import pytest

from dflash_deploy import registry
from dflash_deploy.reach import Releases, covers, is_range, is_version, matching
from dflash_deploy.schema import When

RELEASES = Releases.of(registry.load(user=False).engines)
VLLM = When(engine="vllm")


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        (When(), VLLM),
        (VLLM, VLLM),
        (VLLM, When(engine="vllm", version="<0.30")),
        (When(engine="vllm", version=">=0.20.0"), When(engine="vllm", version=">=0.26.0,<0.30")),
        (When(engine="vllm", version="<0.31"), When(engine="vllm", version="<0.30.1")),
        (VLLM, When(engine="vllm", architecture=["hopper"])),
        (When(architecture=["hopper", "ada"]), When(engine="vllm", architecture=["ada"])),
        (When(architecture=["ampere", "ada", "hopper", "blackwell", "blackwell-rtx"]), VLLM),
        (When(memory_at_least_gib=40), When(memory_at_least_gib=80)),
        (When(), When(cards=["H200"])),
        (When(cards=["H100", "H200"]), When(cards=["H200"])),
        (When(concurrency_at_most=32), When(concurrency_at_most=8)),
        (When(), When(kv_dtype="fp8", thinking="on")),
        (When(thinking="on"), When(thinking="on", kv_dtype="fp8")),
    ],
)
def test_covered(earlier: When, later: When) -> None:
    assert covers(earlier, later, RELEASES)


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        (VLLM, When()),
        (VLLM, When(engine="sglang")),
        (When(engine="vllm", version="<0.30"), VLLM),
        # A release that is still to come is left over, and so is one older than any known.
        (When(engine="vllm", version="<=0.33.0"), When(engine="vllm", version=">=0.26")),
        (When(engine="vllm", version=">=0.20.0"), When(engine="vllm", version="<0.30")),
        (When(architecture=["hopper"]), When(architecture=["hopper", "ada"])),
        (When(architecture=["hopper"]), When()),
        (When(memory_at_least_gib=80), When(memory_at_least_gib=40)),
        (When(memory_at_least_gib=80), When()),
        (When(cards=["H200"]), When()),
        (When(cards=["H200"]), When(cards=["H100"])),
        (When(cards=["H200"]), When(architecture=["hopper"])),
        (When(concurrency_at_most=8), When(concurrency_at_most=32)),
        (When(concurrency_at_most=8), When()),
        (When(kv_dtype="fp8"), When()),
        (When(kv_dtype="fp8"), When(kv_dtype="bf16")),
        (When(thinking="on"), When(thinking="off")),
    ],
)
def test_something_is_left_over(earlier: When, later: When) -> None:
    assert not covers(earlier, later, RELEASES)


def test_matching_counts_known_releases_and_one_beside_each_end() -> None:
    assert len(matching(VLLM, RELEASES)) == len(RELEASES.of_engine["vllm"])
    newest = matching(When(engine="vllm", version=">0.33.0"), RELEASES)
    assert len(newest) == 1
    assert not matching(When(engine="vllm", version=">0.28.0,<0.29.0"), RELEASES)


@pytest.mark.parametrize("text", [">=0.26.0,<0.33.0", "==0.5.14", "~=0.26", "!=0.25.1"])
def test_ranges(text: str) -> None:
    assert is_range(text)


@pytest.mark.parametrize("text", ["", "0.26.0", "newest", ">=0.26.0 <0.30", "=>1"])
def test_no_ranges(text: str) -> None:
    assert not is_range(text)


def test_versions() -> None:
    assert is_version("0.5.15.post1")
    assert not is_version("nightly")
