"""Published numbers as tables, with bars that compare like with like."""

from __future__ import annotations

import msgspec
import pytest

from dflash_deploy import registry
from dflash_deploy.published import accepted_table, bar, published_table, schedules
from dflash_deploy.schema import Evidence, Measurement


def evidence(*results: Measurement) -> Evidence:
    return Evidence(outcome="published", engine="vllm", version=None, gpu=None, date=None,
                    block_size=16, how="h", source="s", results=list(results))  # fmt: skip


def row(task="gsm8k", **values) -> Measurement:
    return Measurement(task=task, **values)


def test_a_row_a_task_and_block_a_column_a_load() -> None:
    header, rows = published_table(evidence(
        row(concurrency=1, acceptance_length=5.3, speedup=1.8), row(concurrency=8, speedup=1.6),
        row(concurrency=1, block_size=8, tokens_per_second=120.5), row("mbpp", acceptance_length=4),
    ))  # fmt: skip
    assert header == ["TASK", "BLOCK", "ACCEPTED", "AT 1", "AT 8"]
    assert rows == [
        ("gsm8k", "16", "5.3", "1.8x", "1.6x"),
        ("gsm8k", "8", "", "120.5/s", ""),
        ("mbpp", "16", "4", "", ""),
    ]


def test_a_gain_without_a_load_has_its_own_column() -> None:
    header, rows = published_table(evidence(row(speedup=2.4)))
    assert (header[-1], rows[0][-1]) == ("GAIN", "2.4x")


def test_two_rates_are_a_gain_and_one_alone_is_not() -> None:
    both = row(concurrency=1, tokens_per_second=120.3, baseline_tokens_per_second=56.3)
    alone = row("mbpp", concurrency=1, tokens_per_second=50)
    assert [cells[-1] for cells in published_table(evidence(both, alone))[1]] == ["2.14x", "50/s"]


def test_the_length_of_the_lowest_load_is_shown() -> None:
    _, rows = published_table(evidence(
        row(concurrency=32, acceptance_length=8.62), row(concurrency=1, acceptance_length=8.59),
    ))  # fmt: skip
    assert rows == [("gsm8k", "16", "8.59")]


def test_a_row_alone_has_no_bar() -> None:
    header, rows = published_table(evidence(row(speedup=2.0)), bars=True)
    assert len(header) == len(rows[0]) == 4


def test_bars_show_one_quantity_and_nothing_where_it_is_missing() -> None:
    _, rows = published_table(
        evidence(row(speedup=2.0, acceptance_length=9), row("mbpp", speedup=1.0),
                 row("alpaca", acceptance_length=99)),
        bars=True,
    )  # fmt: skip
    assert [cells[-1] for cells in rows] == ["█" * 12, "█" * 6, ""]
    _, accepted = published_table(
        evidence(row(acceptance_length=4), row("mbpp", acceptance_length=1)), bars=True
    )
    assert [cells[-1] for cells in accepted] == ["█" * 12, "█" * 3]


@pytest.mark.parametrize(
    ("value", "longest", "drawn"),
    [(1, 1, "████"), (0.5, 1, "██"), (0, 1, ""), (1, 0, ""), (1, 32, "▏"), (9, 32, "█▏")],
)
def test_a_bar(value: float, longest: float, drawn: str) -> None:
    assert bar(value, longest, width=4) == drawn


def test_a_schedule_is_marked_and_spelled_out() -> None:
    spans = [(1, 8, 15), (9, 64, 7)]
    of = msgspec.structs.replace(evidence(
        row(concurrency=1, schedule=spans, speedup=4.9), row(concurrency=1, block_size=8, speedup=3),
        row(rate=2.0, block_size=8, acceptance_length=5.1),
    ), block_size=None)  # fmt: skip
    header, rows = published_table(of)
    assert header == ["TASK", "BLOCK", "ACCEPTED", "AT 1"]
    assert rows == [("gsm8k", "*", "", "4.9x"), ("gsm8k", "8", "5.1", "3x")]
    assert schedules(of) == {"*": "15 up to 8 requests, 7 up to 64"}


def test_lengths_that_change_with_the_load_have_a_table() -> None:
    found = accepted_table(evidence(
        row(concurrency=32, acceptance_length=8.62), row(concurrency=1, acceptance_length=8.59),
        row("mbpp", concurrency=8, acceptance_length=4), row("alpaca", concurrency=1, speedup=2.0),
    ))  # fmt: skip
    assert found == (
        ["TASK", "BLOCK", "AT 1", "AT 8", "AT 32"],
        [("gsm8k", "16", "8.59", "", "8.62"), ("mbpp", "16", "", "4", "")],
    )


def test_lengths_that_do_not_change_have_none() -> None:
    same = evidence(
        row(concurrency=1, acceptance_length=4), row(concurrency=8, acceptance_length=4)
    )
    assert accepted_table(same) is None
    assert accepted_table(evidence(row(speedup=2.0))) is None


def test_every_published_number_is_in_a_table_of_80_columns() -> None:
    """Each acceptance length of the shipped entries, at the load it was published for."""
    for entry in registry.load(user=False).entries.values():
        for seen in entry.model.evidence:
            tables = [t for t in (published_table(seen), accepted_table(seen)) if t]
            cells = {cell for _, rows in tables for line in rows for cell in line}
            lengths = {f"{r.acceptance_length:g}" for r in seen.results if r.acceptance_length}
            assert lengths <= cells, entry.id
            for header, rows in tables:
                widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
                assert sum(widths) + 2 * (len(widths) - 1) <= 80, entry.id
