from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dflash_deploy.errors import RegistryError, UsageError
from dflash_deploy.measure.evidence import evidence_of
from dflash_deploy.measure.far_below import far_below
from dflash_deploy.measure.record import published_for
from dflash_deploy.measure.report import Cell, Load, Report
from dflash_deploy.registry import Entry, load
from dflash_deploy.schema import Evidence
from dflash_deploy.status import status
from tests.fakes.reports import GENTLE, report, resting, with_drafts


@pytest.fixture(scope="module")
def entry() -> Entry:
    return load(user=False).find("qwen3-8b")


def extended(entry: Entry, made: list[Evidence]) -> Entry:
    model = msgspec.structs.replace(entry.model, evidence=[*made, *entry.model.evidence])
    return Entry(entry.id, model, entry.files, "user", entry)


def altered(**changes: Any) -> Report:
    return msgspec.structs.replace(report(), **changes)


def test_a_report_is_evidence_and_the_status_follows(entry: Entry) -> None:
    made = evidence_of(report(), entry)
    (evidence,) = made.model.evidence
    assert made.model.extends == "Qwen/Qwen3-8B"
    assert (evidence.outcome, evidence.engine, evidence.version) == ("verified", "vllm", "0.26.0")
    assert (evidence.gpu, evidence.date, evidence.thinking) == ("H100", "2026-11-28", "off")
    assert evidence.build is None
    row = evidence.results[0]
    assert (row.task, row.concurrency, row.block_size) == ("mixed", 1, 16)
    assert (row.acceptance_length, row.speedup) == (6.5, 4.02)
    assert (row.tokens_per_second, row.baseline_tokens_per_second) == (402.0, 100.0)
    recipe = next(each for each in entry.model.recipes if each.when.engine == "vllm")
    assert status(entry, recipe) == "untested"
    assert status(extended(entry, [evidence]), recipe) == "verified"


def test_made_up_acceptance_is_engine_cost_and_verifies_nothing(entry: Entry) -> None:
    made = evidence_of(report(synthetic=6.5), entry)
    (evidence,) = made.model.evidence
    assert (evidence.synthetic, evidence.outcome) == (True, "synthetic")
    assert evidence.build == "synthetic acceptance: 6.5 at block 16, 6.5 at block 8"
    assert all(row.acceptance_length is None for row in evidence.results)
    assert any("made up" in note for note in made.notes)
    over = extended(entry, [evidence])
    recipe = next(each for each in entry.model.recipes if each.when.engine == "vllm")
    assert status(over, recipe) == "untested"
    assert evidence not in published_for(over, None)


def test_one_report_is_one_file_and_another_is_another(entry: Entry) -> None:
    assert evidence_of(report(), entry).file == evidence_of(report(), entry).file
    assert evidence_of(report(), entry).file != evidence_of(altered(seed=1), entry).file


def test_thinking_modes_are_evidence_of_their_own(entry: Entry) -> None:
    both = report(workloads=("mixed", "chat"))
    chat = msgspec.structs.replace(both.workloads[1], thinking="on")
    made = evidence_of(msgspec.structs.replace(both, workloads=(both.workloads[0], chat)), entry)
    assert [
        (each.thinking, {row.task for row in each.results}) for each in made.model.evidence
    ] == [
        ("off", {"mixed"}),
        ("on", {"chat"}),
    ]


def test_prompts_of_the_users_own_are_called_so(entry: Entry) -> None:
    for workload, task in (("tickets", "self-written"), ("tokens-256", "random")):
        (evidence,) = evidence_of(report(workloads=(workload,)), entry).model.evidence
        assert {row.task for row in evidence.results} == {task}


def _machine(**changes: Any) -> Any:
    hardware = msgspec.structs.replace(report().machine.hardware, **changes)
    return msgspec.structs.replace(report().machine, hardware=hardware)


OTHER = msgspec.structs.replace(report().machine.hardware.cards[0], name="A100")


@pytest.mark.parametrize(
    ("made", "kind", "why"),
    [
        (altered(complete=False), UsageError, "interrupted"),
        (altered(model="Qwen/Qwen3-4B"), RegistryError, "the report is of Qwen/Qwen3-4B"),
        (altered(draft="me/other"), RegistryError, "the draft me/other, which Qwen/Qwen3-8B has not"),
        (altered(draft=None), RegistryError, "the draft None"),
        (report({"plain": {1: (5,)}}), UsageError, "no DFlash"),
        (altered(arms=tuple(msgspec.structs.replace(a, argv=()) for a in report().arms)), UsageError, "started by somebody else"),
        (altered(machine=_machine(cards=())), UsageError, "which card it was: none found"),
        (altered(machine=_machine(cards=(*report().machine.hardware.cards, OTHER))), UsageError, "A100, H100"),
        (altered(cells=()), UsageError, "no figure"),
        (with_drafts(altered(engine="transformers"), "plain", 15, "http://localhost:8000"), UsageError, "somebody else asked"),
        (with_drafts(report(), "plain", 15), UsageError, "plain server drafted as well"),
        (with_drafts(report(), "dflash-8", 15), UsageError, "dflash-8 drafted 15 tokens a cycle"),
        (report({"plain": {1: (5,)}, "dflash-16": {1: (9,)}}, lengths={"dflash-16": 0}), UsageError, "no figure"),
    ],
)  # fmt: skip
def test_what_proves_nothing_is_refused(
    entry: Entry, made: Report, kind: type[Exception], why: str
) -> None:
    with pytest.raises(kind, match=why) as caught:
        evidence_of(made, entry)
    assert caught.value.hint


def test_only_cards_of_two_kinds_can_be_chosen_from(entry: Entry) -> None:
    for cards, hint in (
        ((), "dflash doctor"),
        ((OTHER, *report().machine.hardware.cards), "with CUDA_VISIBLE_DEVICES set"),
    ):
        with pytest.raises(UsageError) as caught:
            evidence_of(altered(machine=_machine(cards=cards)), entry)
        assert hint in (caught.value.hint or "")


def test_of_an_interrupted_report_the_arms_that_ran_to_their_end_count(entry: Entry) -> None:
    speeds = {"plain": {1: (100, 101), 8: (700, 705)}, "dflash-16": {1: (400, 404), 8: (2000, 2040)},
              "dflash-8": {1: (330, 333), 8: (1800,)}}  # fmt: skip
    made = evidence_of(report(speeds, complete=False), entry)
    (evidence,) = made.model.evidence

    assert {row.block_size for row in evidence.results} == {16}
    assert made.notes == (
        "left out: dflash-8: interrupted before it had run as often as plain decoding",
    )
    assert "interrupted before all its arms had run; " in (evidence.how or "")
    # and none where a load is missing, or plain decoding ran more often
    del speeds["dflash-16"][8]
    with pytest.raises(UsageError, match="interrupted"):
        evidence_of(report(speeds, complete=False), entry)
    # nor of one round: with arms that take turns it could be the first of three, at one load
    once = {"plain": {1: (100,)}, "dflash-16": {1: (400, 404)}}
    with pytest.raises(UsageError, match="interrupted"):
        evidence_of(report(once, complete=False), entry)


def test_half_made_up_is_refused(entry: Entry) -> None:
    arms = list(report(synthetic=6.5).arms)
    arms[1] = report().arms[1]
    with pytest.raises(UsageError, match="some was real"):
        evidence_of(altered(arms=tuple(arms)), entry)


def test_a_draft_that_is_never_right_degrades_the_recipe(entry: Entry) -> None:
    (evidence,) = evidence_of(
        report(lengths={"dflash-16": 1.01, "dflash-8": 1.01}), entry
    ).model.evidence
    assert evidence.outcome == "degraded"


def test_what_is_no_release_never_counts(entry: Entry) -> None:
    for version in ("0.27.0.dev3", "0.26.0+abc", "nightly", None):
        (evidence,) = evidence_of(altered(version=version), entry).model.evidence
        assert evidence.build


def test_cells_that_are_no_figures_are_left_out_and_said(entry: Entry) -> None:
    failing = evidence_of(report(failed={("dflash-16", 64): 20}), entry)
    assert failing.notes == (
        "left out: dflash-16, mixed at c=64: nothing ran, or too many requests failed",
    )
    assert len(failing.model.evidence[0].results) == 7
    mtp = {"plain": {1: (5,)}, "dflash-16": {1: (9,)}, "mtp-3": {1: (7,)}}
    assert evidence_of(report(mtp), entry).notes == (
        "left out: mtp-3: entries speak of DFlash alone",
    )


def test_a_schedule_is_no_block(entry: Entry) -> None:
    spans = ((1, 8, 15), (9, 64, 7))
    (evidence,) = evidence_of(with_arm("dflash-8", schedule=spans), entry).model.evidence
    rows = [row for row in evidence.results if row.schedule]
    assert [row.concurrency for row in rows] == [1, 8, 32, 64]
    assert rows[0].schedule == [*spans]
    assert {row.block_size for row in rows} == {None}
    assert (evidence.block_size, evidence.outcome) == (None, "verified")
    made = published_for(extended(entry, [evidence]), None)
    # a schedule drafts less under load, and is not far below for that
    short = report(lengths={"dflash-16": 2.0})
    arms = tuple(msgspec.structs.replace(arm, schedule=spans) if arm.name == "dflash-16" else arm
                 for arm in short.arms)  # fmt: skip
    assert any("dflash-16" in line for line in far_below(short, made))
    assert not list(far_below(msgspec.structs.replace(short, arms=arms), made))


def at_a_rate(of: Report) -> Report:
    cells = (msgspec.structs.replace(cell, load=Load(rate=2.0)) if cell.load.concurrency == 8
             else cell for cell in of.cells)  # fmt: skip
    return msgspec.structs.replace(of, cells=tuple(cells))


def test_what_arrives_by_chance_shows_acceptance_and_no_speed(entry: Entry) -> None:
    (evidence,) = evidence_of(at_a_rate(report()), entry).model.evidence
    row = next(row for row in evidence.results if row.rate)
    assert (row.rate, row.concurrency, row.acceptance_length) == (2.0, None, 6.5)
    assert (row.speedup, row.tokens_per_second) == (None, None)
    assert "acceptance alone where requests arrived by chance, 2 a second" in evidence.how
    assert any("nothing is left" in note for note in evidence_of(
        at_a_rate(report(synthetic=6.5)), entry).notes)  # fmt: skip


def test_dummy_weights_neither_prove_nor_degrade(entry: Entry) -> None:
    for words in (("--load-format", "dummy"), ("--load-format=dummy",)):
        with pytest.raises(UsageError, match="no figure") as caught:
            evidence_of(with_arm(None, argv=("vllm", "serve", "x", *words)), entry)
        assert "its weights were dummies" in (caught.value.detail or "")
        arms = with_arm(None, report(synthetic=6.5), argv=("vllm", *words))
        (evidence,) = evidence_of(arms, entry).model.evidence
        assert (evidence.build or "").endswith("; dummy weights")


def test_a_server_that_ran_already_counts_for_nothing(entry: Entry) -> None:
    there = with_arm(None, argv=(), url="http://127.0.0.1:8000")
    made = evidence_of(msgspec.structs.replace(there, draft=None), entry)
    (evidence,) = made.model.evidence
    assert evidence.build == "a server that ran already, its command unknown"
    assert evidence.draft == "z-lab/Qwen3-8B-DFlash-b16"
    assert any("did not say which draft" in note for note in made.notes)
    recipe = next(each for each in entry.model.recipes if each.when.engine == "vllm")
    assert status(extended(entry, [evidence]), recipe) == "untested"
    with pytest.raises(UsageError, match="not on this machine"):
        evidence_of(with_arm(None, argv=(), url="http://10.0.0.7:8000"), entry)


def with_arm(name: str | None, of: Report | None = None, **changes: Any) -> Report:
    """One arm changed, or with None every arm."""
    of = of or report()
    arms = (msgspec.structs.replace(arm, **changes) if name in (None, arm.name) else arm
            for arm in of.arms)  # fmt: skip
    return msgspec.structs.replace(of, arms=tuple(arms))


def test_weights_are_the_first_unless_told(entry: Entry) -> None:
    assert evidence_of(report(), entry).model.evidence[0].weights == "bf16"
    with pytest.raises(UsageError, match="no weights `int4`"):
        evidence_of(report(), entry, "int4")
    several = load(user=False).find("smollm2-135m")
    made = report({"plain": {1: GENTLE["plain"][1]}, "dflash-8": {1: GENTLE["dflash-8"][1]}},
                  model=several.id, draft=several.model.drafts[0].id)  # fmt: skip
    assert any("--weights" in note for note in evidence_of(made, several).notes)
    ran = msgspec.structs.replace(made, weights="q4_1")
    assert not any("--weights" in note for note in evidence_of(ran, several).notes)
    assert evidence_of(ran, several).model.evidence[0].weights == "q4_1"
    assert evidence_of(made, several, "q4_1").model.evidence[0].weights == "q4_1"


def test_on_a_cpu_the_cpu_is_named() -> None:
    demo = load(user=False).find("smollm2-135m")
    made = report({"plain": {1: (20,)}, "dflash-8": {1: (30,)}}, model=demo.id,
                  draft=demo.model.drafts[0].id, engine="transformers", version="0.1.0",
                  machine=_machine(cards=()))  # fmt: skip
    (evidence,) = evidence_of(made, demo).model.evidence
    assert evidence.gpu == "CPU, 64 cores of AMD EPYC 9554"
    assert evidence.how.startswith("dflash bench 0.1.0 on a CPU; ")


def _answering(tokens: int, cell: Cell) -> Cell:
    runs = (msgspec.structs.replace(cell.runs[0], output_tokens=tokens, requests=4),)
    return msgspec.structs.replace(cell, runs=runs)


def test_a_cell_of_a_handful_of_tokens_is_left_out(entry: Entry) -> None:
    drafted = [cell for cell in report().cells if cell.arm != "plain"]
    made = evidence_of(altered(cells=(_answering(499, drafted[0]), *drafted[1:])), entry)
    (note,) = [note for note in made.notes if "chance" in note]
    assert note.startswith("left out: dflash-16, mixed at c=1: 499 tokens were answered")
    (evidence,) = made.model.evidence
    assert len(evidence.results) == len(drafted) - 1


def test_of_a_handful_of_tokens_alone_nothing_is_taken_and_what_suffices_is_the_hint(
    entry: Entry,
) -> None:
    few = altered(
        cells=tuple(_answering(96, cell) for cell in report().cells),
        command="dflash bench qwen3-8b --num-prompts 4 --output a.json -- --swap-space 1",
    )
    with pytest.raises(UsageError, match="no figure that could be evidence") as caught:
        evidence_of(few, entry)
    assert caught.value.hint == "dflash bench qwen3-8b --num-prompts 21 -- --swap-space 1"


SWINGING = {
    "plain": {1: (100, 101), 8: (500, 900), 32: (2000, 2020)},
    "dflash-16": {1: (400, 404), 8: (2000, 2040), 32: (1000, 2640)},
}


def test_repeats_that_swing_know_no_speed_and_their_acceptance_stays(entry: Entry) -> None:
    made = evidence_of(report(SWINGING), entry)
    (evidence,) = made.model.evidence
    assert [(row.concurrency, row.speedup, row.tokens_per_second, row.acceptance_length)
            for row in evidence.results] == [
        (1, 4.0, 402.0, 6.5), (8, None, 2020.0, 6.5), (32, None, None, 6.5),
    ]  # fmt: skip
    assert made.notes == (
        "left out: the gain over plain, mixed at c=8: its repeats differ by 29% to either side",
        "left out: the speed of dflash-16, mixed at c=32: its repeats differ by 45% to either side",
    )
    assert evidence.how.endswith("2 repeats, within 1.0% of their mean")


def test_a_report_that_was_gone_on_with_and_measured_no_more_is_the_same_evidence(
    entry: Entry,
) -> None:
    again = report(command="dflash bench qwen3-8b --resume a.json", verdict=("told anew",))
    made, other = evidence_of(report(), entry), evidence_of(again, entry)
    assert (made.model.evidence, made.file) == (other.model.evidence, other.file)
    assert made.file != evidence_of(report(date="2026-11-29T10:00:00Z"), entry).file


def test_a_gain_rests_on_the_repeats_of_plain_decoding_too(entry: Entry) -> None:
    uneven = {"plain": {1: (90, 110)}, "dflash-16": {1: (400, 404)}}
    (evidence,) = evidence_of(report(uneven), entry).model.evidence
    assert evidence.how.endswith(
        "2 repeats, of plain decoding within 10.0% of their mean, with the draft within 0.5%"
    )


def test_repeats_are_within_what_the_farthest_of_them_lies_off_their_mean(entry: Entry) -> None:
    one_low = {"plain": {1: (100, 100, 100)}, "dflash-16": {1: (412, 412, 376)}}
    (evidence,) = evidence_of(report(one_low), entry).model.evidence
    assert evidence.how.endswith("; 3 repeats, within 6.0% of their mean")
    low_plain = {"plain": {1: (103, 103, 94)}, "dflash-16": {1: (400, 400, 400)}}
    (evidence,) = evidence_of(report(low_plain), entry).model.evidence
    assert "3 repeats, of plain decoding within 6.0% of their mean" in evidence.how


def test_evidence_says_which_command_measured_it(entry: Entry) -> None:
    for command, name in (
        ("dflash tune qwen3-8b --engine vllm", "dflash tune"),
        ("torchrun --nproc_per_node=2 -m dflash_deploy bench qwen3-8b", "dflash bench"),
        ("dflash bench tune --output tune.json", "dflash bench"),
    ):
        (evidence,) = evidence_of(report(command=command), entry).model.evidence
        assert evidence.how.startswith(f"{name} ")
        assert evidence.source.startswith(f"{name}, report ")


def test_an_arm_that_was_not_repeated_is_said(entry: Entry) -> None:
    dropped = {"plain": {1: (100, 101)}, "dflash-16": {1: (400, 416)}, "dflash-8": {1: (90,)}}
    (evidence,) = evidence_of(report(dropped), entry).model.evidence
    assert evidence.how.endswith("; 1 to 2 repeats, within 2.0% of their mean")


def test_a_speed_that_swings_is_all_that_made_up_acceptance_has(entry: Entry) -> None:
    made = evidence_of(report(SWINGING, synthetic=6.5), entry)
    assert [row.concurrency for row in made.model.evidence[0].results] == [1, 8]
    assert any("c=32: its repeats differ by 45% to either side, and its" in note
               for note in made.notes)  # fmt: skip
    swinging = {"plain": {1: (100, 101)}, "dflash-16": {1: (100, 400)}}
    with pytest.raises(UsageError, match="no figure that could be evidence") as caught:
        evidence_of(report(swinging, synthetic=6.5), entry)
    assert caught.value.hint == "dflash bench qwen3-8b --concurrency 1,8,32,64"


def test_where_the_draft_rests_there_is_no_evidence_of_it(entry: Entry) -> None:
    made = evidence_of(resting(report(), "dflash-16", 64), entry)
    (found,) = made.model.evidence
    kept = [(row.block_size, row.concurrency) for row in found.results]
    assert (16, 32) in kept
    assert (16, 64) not in kept
    assert any(
        "dflash-16, mixed at c=64: its draft rests there: 100%" in note for note in made.notes
    )
