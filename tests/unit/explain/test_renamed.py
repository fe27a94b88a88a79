"""Options that another release calls otherwise, or no longer has."""

from __future__ import annotations

import pytest
from packaging.version import Version

from dflash_deploy.flag_tables import FlagTable, flag_table, tables
from dflash_deploy.plan import Plan
from dflash_deploy.registry import load
from tests.unit.explain.test_flags import PAIR, SGLANG

REGISTRY = load(user=False)
ENGINES = ("vllm", "sglang")


def options(table: FlagTable) -> set[str]:
    """Every spelling of an option, without the keys of a JSON object."""
    return {name for flag in table.flags for name in (flag.name, *flag.aliases, *flag.negatives)}


@pytest.mark.parametrize("engine", ENGINES)
def test_what_became_of_every_option_that_a_release_dropped_is_known(engine: str) -> None:
    *older, newest = map(options, tables(engine))
    gone = set().union(*older) - newest
    known = REGISTRY.engines[engine]
    spelled = {spelling.flag for spelling in known.spellings}
    assert gone <= spelled | {item.flag for item in known.renamed}
    ever = newest.union(*older)
    assert not {item.flag for item in known.renamed} & (ever - gone)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_successor_is_an_option_of_some_release(engine: str) -> None:
    known = {name: flag for table in tables(engine) for name, flag in table.names().items()}
    taken: dict[str, set[str]] = {}
    for table in tables(engine):
        for row in table.flags:
            taken.setdefault(row.name, set()).update(row.choices or ())
    for item in REGISTRY.engines[engine].renamed:
        if item.now is None:
            continue
        row = known[item.now]
        words = [item.value] if item.value else [word.now for word in item.words]
        assert not row.choices or {*words} <= taken[row.name]
        old = known.get(item.flag)  # none of those from before the first release with DFlash
        if old is not None:
            assert (row.takes == "none") == (item.value is None and old.takes == "none")


@pytest.mark.parametrize(
    ("said", "now"),
    [
        ("--speculative-dflash-draft-window-size 2048", "--speculative-draft-window-size 2048"),
        ("--cuda-graph-bs 1 2 4", "--cuda-graph-bs-decode 1 2 4"),
        ("--enable-breakable-cuda-graph", "--cuda-graph-backend-prefill breakable"),
        ("--stream-output", "--incremental-streaming-output"),
        ("--nsa-prefill-cp-mode round-robin-split", "--cp-strategy interleave"),
        ("--disable-piecewise-cuda-graph", "--disable-prefill-cuda-graph"),
    ],
)
def test_the_right_command_says_it_in_todays_words(explain, said: str, now: str) -> None:
    report = explain(SGLANG + said)
    (found,) = [item for item in report.findings if item.part == said]
    assert found.verdict == "stale"
    assert f"it is {now} now" in found.message
    assert isinstance(report.right, Plan)
    assert f"{now}\n" in report.right_text.replace(" \\", "") + "\n"


@pytest.mark.parametrize(
    ("text", "version", "part", "message"),
    [
        (SGLANG + "--piecewise-cuda-graph-compiler eager", None,
         "--piecewise-cuda-graph-compiler eager", "gone after 0.5.19"),
        (SGLANG + "--enforce-piecewise-cuda-graph", None, "--enforce-piecewise-cuda-graph",
         "gone after 0.5.19: --cuda-graph-backend-prefill, in its place, does not take tc_piecewise"),
        (SGLANG + "--enforce-piecewise-cuda-graph", "0.5.20", "--enforce-piecewise-cuda-graph",
         "gone after 0.5.19: it is --cuda-graph-backend-prefill tc_piecewise now"),
        (SGLANG + "--collect-tokens-histogram", None, "--collect-tokens-histogram",
         "gone after 0.5.19: --enable-metrics brings it along"),
        (SGLANG + "--cuda-graph-bs-decode 1 2", "0.5.13.post1", "--cuda-graph-bs-decode 1 2",
         "only from 0.5.14 on: it is --cuda-graph-bs 1 2"),
        (PAIR + "--enable-mamba-fine-grained-prefix-cache", None,
         "--enable-mamba-fine-grained-prefix-cache",
         "gone after 0.30.0: it is --enable-mamba-shared-prefix-checkpoint now"),
        (PAIR + "--num-speculative-tokens 5", None, "--num-speculative-tokens 5",
         "vllm 0.33.0 has no such option: it is --speculative-config.num_speculative_tokens 5 now"),
        (PAIR + "--max-num-partial-prefills 2", None, "--max-num-partial-prefills 2",
         "gone after 0.26.0: prompts are no longer cut beside each other"),
    ],
)  # fmt: skip
def test_what_is_said_of_it(explain, text, version, part, message) -> None:
    assert {item.part: item.message for item in explain(text, version=version).findings}[
        part
    ] == message


def test_a_successor_that_would_not_be_taken_is_left_out(explain) -> None:
    report = explain(SGLANG + "--prefill-cp-mode nonsense")
    assert "--cp-strategy" not in report.right_text
    table = flag_table("sglang", Version(report.right.version))
    assert "--cp-strategy" in table.names()
