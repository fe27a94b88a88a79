from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_deploy.errors import GateFailed, UsageError
from dflash_deploy.measure.compare import check_comparable, compare, comparison_table, gate
from dflash_deploy.measure.report import Report
from tests.fakes.reports import GENTLE, Speeds, report

REPEATS = st.lists(st.integers(10, 1000), min_size=2, max_size=4).map(tuple)


def with_speed(arm: str, load: int, *repeats: float) -> Speeds:
    return GENTLE | {arm: GENTLE[arm] | {load: repeats}}


def states(old: Report, new: Report) -> set[str]:
    return {change.state for change in compare(old, new).changes}


def test_the_same_report_has_no_change() -> None:
    found = compare(report(), report())
    check_comparable(report(), report(), Path("old.json"))
    assert len(found.changes) == 12
    assert (found.left_out, found.notes, found.slower) == ((), (), [])
    gate(found, "old.json")


def test_what_got_slower_is_named_and_fails_the_gate() -> None:
    found = compare(report(), report(with_speed("dflash-16", 8, 1500, 1520)))
    (change,) = found.slower
    assert (change.arm, change.load.concurrency, round(change.mean, 2)) == ("dflash-16", 8, 0.75)
    with pytest.raises(
        GateFailed, match=r"1 of 12 cells are slower than in old\.json: at worst 0\.75x"
    ):
        gate(found, "old.json")


def test_what_the_repeats_explain_is_the_same() -> None:
    assert states(report(), report(with_speed("dflash-16", 8, 1900, 2010))) == {"same"}
    once = {"plain": {1: (100,)}}
    assert states(report(once), report({"plain": {1: (92,)}})) == {"same"}
    assert states(report(once), report({"plain": {1: (85,)}})) == {"slower"}


@given(REPEATS, REPEATS)
def test_slower_means_every_repeat(old: tuple[int, ...], new: tuple[int, ...]) -> None:
    (change,) = compare(report({"plain": {1: old}}), report({"plain": {1: new}})).changes
    assert (change.state == "slower") == (max(new) < min(old))
    assert (change.state == "faster") == (min(new) > max(old))


def machine(**changes: Any) -> Any:
    return msgspec.structs.replace(report().machine, **changes)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            {"machine": machine(cpu="another")},
            "it was another machine: H100, AMD EPYC 9554, 64 cores",
        ),
        ({"model": "Qwen/Qwen3-4B"}, "the model was Qwen/Qwen3-8B and is Qwen/Qwen3-4B"),
        ({"draft": None}, "the draft was z-lab/Qwen3-8B-DFlash-b16 and is unknown"),
        ({"engine": "sglang"}, "the engine was vllm and is sglang"),
        ({"temperature": 1.0}, "the temperature was 0.0 and is 1.0"),
    ],
)
def test_what_cannot_be_compared_at_all(change: dict[str, Any], why: str) -> None:
    found = compare(report(), msgspec.structs.replace(report(), **change))
    assert found.changes == ()
    assert found.left_out[0].startswith(why)
    with pytest.raises(GateFailed, match=r"nothing can be compared with old\.json"):
        gate(found, "old.json")
    with pytest.raises(UsageError, match=r"nothing can be compared with old\.json: .*(is|was) "):
        check_comparable(report(), msgspec.structs.replace(report(), **change), Path("old.json"))


def test_a_driver_or_what_else_runs_on_a_card_makes_no_other_machine() -> None:
    card = msgspec.structs.replace(report().machine.hardware.cards[0], free_gib=3.0, index=5)
    hardware = msgspec.structs.replace(report().machine.hardware, cards=(card,), driver="600.1")
    new = msgspec.structs.replace(report(), machine=machine(hardware=hardware))
    assert len(compare(report(), new).changes) == 12


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            {"sha256": "f" * 64},
            "chat: other prompts were sent (sha256 cccccccccccc, now ffffffffffff)",
        ),
        ({"max_tokens": 99}, "chat: answers had at most 512 tokens, now 99"),
        ({"thinking": "on"}, "chat: thinking was off, now on"),
    ],
)
def test_other_prompts_leave_that_workload_out(change: dict[str, Any], why: str) -> None:
    both = report(workloads=("mixed", "chat"))
    workloads = (both.workloads[0], msgspec.structs.replace(both.workloads[1], **change))
    found = compare(both, msgspec.structs.replace(both, workloads=workloads))
    assert found.left_out == (why,)
    assert {change.workload for change in found.changes} == {"mixed"}


def test_real_and_made_up_acceptance_are_never_compared() -> None:
    found = compare(report(), report(synthetic=6.5))
    assert {change.arm for change in found.changes} == {"plain"}
    assert (
        "dflash-16: it was dflash, block 16, real, now dflash, block 16, synthetic at 6.5"
        in found.left_out
    )


def test_cells_of_one_side_and_cells_in_trouble_are_said() -> None:
    fewer = {name: {1: by_load[1]} for name, by_load in GENTLE.items()}
    assert len(compare(report(), report(fewer)).left_out) == 9
    assert "plain, mixed at 8: not measured now" in compare(report(), report(fewer)).left_out
    assert "plain, mixed at 8: not measured then" in compare(report(fewer), report()).left_out
    troubled = report(failed={("plain", 8): 20})
    assert compare(report(), troubled).left_out == (
        "plain, mixed at 8: too many requests failed now",
    )
    assert compare(troubled, report()).left_out == (
        "plain, mixed at 8: too many requests failed then",
    )


def test_another_release_is_said_and_compared() -> None:
    versions = machine(versions=report().machine.versions | {"vllm": "0.27.1"})
    new = msgspec.structs.replace(report(), version="0.27.1", machine=versions, seed=3)
    found = compare(report(), new)
    assert len(found.changes) == 12
    assert found.notes == ("vllm was 0.26.0, now 0.27.1", "the seed was 0, now 3")


def test_the_table_is_read_at_80_columns() -> None:
    table = comparison_table(compare(report(), report(with_speed("dflash-16", 8, 1500, 1520))))
    assert table.title == "Compared: mixed"
    assert (
        "8",
        "dflash-16",
        "2020",
        "1510",
        "0.75x",
        "slower",
        "6.50 > 6.50",
    ) in table.rows
    lines = [table.header, *table.rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(table.header))]
    assert sum(widths) + 2 * len(widths) <= 80


def test_slow_machines_are_told_in_tenths_as_everywhere_else() -> None:
    slow = report({"plain": {1: (2.4, 2.6)}, "dflash-16": {1: (4.6, 4.8)}})
    rows = comparison_table(compare(slow, slow)).rows
    assert [row[2:4] for row in rows] == [("2.5", "2.5"), ("4.7", "4.7")]


def test_another_port_is_no_other_command_and_another_flag_is() -> None:
    def on(*words: str) -> Report:
        arms = tuple(msgspec.structs.replace(arm, argv=("vllm", *words)) for arm in report().arms)
        return msgspec.structs.replace(report(), arms=arms)

    assert compare(on("--port", "8000"), on("--port", "8001")).notes == ()
    assert "another command" in compare(on("--port", "1"), on("--seed", "1")).notes[0]
