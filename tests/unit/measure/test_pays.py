from __future__ import annotations

import re

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from dflash_deploy.measure.gains import gains
from dflash_deploy.measure.pays import verdict
from dflash_deploy.measure.report import Cell, Load, Percentiles, Run
from dflash_deploy.schema import Evidence, Measurement
from tests.fakes.reports import GENTLE, Speeds, report, resting

RATES = st.lists(st.integers(10, 1000), min_size=1, max_size=3).map(tuple)
LOADS = (1, 8, 32)
SPEEDS = st.fixed_dictionaries(
    {arm: st.fixed_dictionaries(dict.fromkeys(LOADS, RATES)) for arm in ("plain", "dflash-16", "dflash-8")}
)  # fmt: skip


def said(speeds: Speeds, **changes: object) -> str:
    return "\n".join(verdict(report(speeds, **changes)))


def published(**changes: object) -> Evidence:
    fields = {"outcome": "published", "engine": "vllm", "version": "0.26.0", "gpu": "H200",
              "date": None, "block_size": 16, "how": "card", "source": "a card",
              "results": [Measurement(task="mixed", acceptance_length=6.5)],
              "thinking": "off", "temperature": 0.0}  # fmt: skip
    return Evidence(**(fields | changes))


def test_where_it_pays_and_which_block() -> None:
    text = said(GENTLE)
    assert "DFlash pays from 1 to 64 in flight: 4.02x at 1" in text
    assert "fastest: dflash-16 from 1 to 8 in flight, dflash-8 from 32 to 64 in flight" in text
    assert "leave it off" not in text


def test_leave_it_off_above() -> None:
    fixed = {name: GENTLE[name] for name in ("plain", "dflash-16")}
    text = said(fixed)
    assert "DFlash pays up to 32 in flight" in text
    assert "leave it off above 32 in flight: 0.80x at 64" in text


def test_what_an_interrupted_report_has_not_measured_is_no_reason_to_leave_it_off() -> None:
    half = {name: GENTLE[name] for name in ("plain", "dflash-16")} | {"dflash-8": {}}
    text = said(half, complete=False, synthetic=6.5)
    assert "leave it off" not in text
    assert "dflash-16 is slower above 32 in flight: 0.80x at 64" in text
    assert "of plain decoding's speed; dflash-8 was not measured there" in text
    # measured at some loads alone, and no block better there
    begun = half | {"dflash-8": {64: (2000,)}}
    assert "leave it off above 32 in flight: 0.80x" in said(begun, complete=False)
    slow = {"plain": {1: (100,)}, "dflash-16": {1: (101,)}, "dflash-8": {}}
    assert "(0.91 to 1.12); dflash-8 was not measured there" in said(slow, complete=False)
    assert "not measured there" not in said(slow)


def test_only_what_ran_had_its_acceptance_made_up() -> None:
    half = report({"plain": {1: (100,)}, "dflash-16": {1: (300,)}, "dflash-8": {}}, synthetic=6.5)
    plain, long, short = half.arms
    arms = (plain, long, msgspec.structs.replace(short, synthetic_length=5.0))
    made = msgspec.structs.replace(half, arms=arms, complete=False)
    assert "made up (6.5 tokens a cycle)" in verdict(made)[0]
    nothing = msgspec.structs.replace(made, cells=())
    assert "made up (5 and 6.5 tokens a cycle)" in verdict(nothing)[0]


def test_what_the_repeats_do_not_tell_apart_is_not_claimed() -> None:
    text = said({"plain": {1: (100, 140)}, "dflash-16": {1: (130, 150)}})
    assert "at 1 in flight DFlash is no faster than plain decoding beyond the spread" in text
    assert "pays" not in text
    tied = said({"plain": {1: (100,)}, "dflash-16": {1: (300, 320)}, "dflash-8": {1: (310, 312)}})
    assert "fastest: dflash-8 or dflash-16 at 1 in flight" in tied


@given(SPEEDS)
@settings(max_examples=60)
def test_no_sentence_claims_more_than_the_cells_show(speeds: Speeds) -> None:
    made = report(speeds)
    text = "\n".join(verdict(made))
    gained = {gain.load.concurrency for gain in gains(made) if gain.state == "gains"}
    lost = {
        load for load in LOADS
        if all(g.state == "loses" for g in gains(made) if g.load.concurrency == load)
    }  # fmt: skip
    for line in text.splitlines():
        told = {int(number) for number in re.findall(r"x at (\d+) \(", line)}
        if "pays" in line:
            assert told <= gained
        if "leave it off" in line:
            assert told <= set(LOADS) - gained
    if not gained:
        assert "pays" not in text
    for load in lost:
        assert re.search(rf"leave it off.*x at {load} \(", text)


def test_another_method_that_wins_is_named() -> None:
    speeds = {"plain": {8: (100, 101)}, "dflash-16": {8: (150, 151)}, "mtp-3": {8: (200, 201)}}
    assert "mtp-3 is faster than DFlash at 8 in flight (mixed): 2.00x against 1.50x" in said(speeds)
    close = {"plain": {8: (100, 101)}, "dflash-16": {8: (150, 190)}, "mtp-3": {8: (180, 201)}}
    assert "is faster than DFlash" not in said(close)


def test_what_limits_it() -> None:
    crowded = said(GENTLE)
    assert "the target's work on the draft tokens: at 64 in flight a cycle brings 5.0" in crowded
    weak = said(
        {"plain": {1: (100, 100)}, "dflash-16": {1: (180, 180)}}, lengths={"dflash-16": 2.0}
    )
    assert "what limits it is acceptance: a cycle brings 2.0 tokens and costs 1.1" in weak
    dear = said(
        {"plain": {1: (100, 100)}, "dflash-16": {1: (150, 150)}}, lengths={"dflash-16": 6.0}
    )
    assert "is the cost of a cycle: it brings 6.0 tokens and costs 4.0 plain steps at 1 in" in dear


def test_a_draft_of_which_nothing_is_accepted_is_told_and_its_cost_is_beside_the_point() -> None:
    speeds = {"plain": {1: (100, 100)}, "dflash-16": {1: (60, 60)}}
    text = said(speeds, lengths={"dflash-16": 1.0})
    assert (
        "dflash-16, mixed: almost nothing that it drafts is accepted, 1.00 tokens a cycle at 1 in"
        " flight: the draft is another target's, or wired wrongly"
    ) in text
    assert "limits it" not in text
    assert "limits it" in said(speeds, lengths={"dflash-16": 1.0}, synthetic=1.0)


def test_tokens_and_steps_that_stand_together_are_of_one_load() -> None:
    def at(heaviest: float) -> str:
        made = report({"plain": {1: (100, 100), 8: (700, 700)},
                       "dflash-16": {1: (200, 200), 8: (heaviest, heaviest)}})  # fmt: skip
        cells = [
            msgspec.structs.replace(
                cell, runs=tuple(_with_length(run, 6.0 if load == 1 else 4.0) for run in cell.runs)
            )
            for cell in made.cells if (load := cell.load.concurrency)
        ]  # fmt: skip
        return "\n".join(verdict(msgspec.structs.replace(made, cells=tuple(cells))))

    dear = (
        "the cost of drafting at any load: a cycle brings 6.0 tokens and costs 3.0 plain steps at 1"
    )
    assert dear in at(900)
    assert (
        "at 8 in flight a cycle brings 4.0 tokens and costs 5.6 plain steps, at 1 it brings 6.0 and"
        " costs 3.0"
    ) in at(500)


def test_made_up_acceptance_is_said_first_and_never_called_a_gain_of_the_draft() -> None:
    lines = verdict(
        report(synthetic=6.5),
        [published(results=[Measurement(task="mixed", acceptance_length=20.0)])],
    )
    assert lines[0].startswith("SYNTHETIC: acceptance was made up (6.5 tokens a cycle)")
    assert lines[1].startswith("with acceptance made up, DFlash pays")
    assert not any("far below" in line for line in lines)


def test_failures_interruptions_and_what_is_missing() -> None:
    text = said(GENTLE, failed={("dflash-16", 64): 10}, complete=False)
    assert text.startswith("interrupted: ")
    assert "dflash-16, mixed at 64 in flight: 20 requests failed (11%), too many to count" in text
    alone = report({"dflash-16": {1: (5, 5)}})
    assert verdict(alone)[0].startswith("plain decoding was not measured: ")
    there = [msgspec.structs.replace(arm, url="http://localhost:8000") for arm in alone.arms]
    (line, *_) = verdict(msgspec.structs.replace(alone, arms=there))
    assert "--baseline-url" in line
    assert said({"plain": {1: (5, 5)}}).startswith("DFlash was not measured")
    assert "no load was measured both" in said({"plain": {1: (5, 5)}, "dflash-16": {8: (5, 5)}})
    both = {"plain": {1: (5, 5)}, "dflash-16": {1: (5, 5)}}
    failing = said(both, failed={("plain", 1): 10, ("dflash-16", 1): 10})
    assert "no load was measured both" not in failing
    assert "no load has a speed both plain and with DFlash: there is no gain to tell" in failing
    assert "each cell ran once" in said({"plain": {1: (5,)}, "dflash-16": {1: (9,)}})


def causes(line: str) -> list[str]:
    return re.split(r"\d\. ", line.partition("in this order: ")[2])[1:]


def test_acceptance_far_below_the_record_and_why() -> None:
    low = report(lengths={"dflash-16": 3.0})
    (line,) = [line for line in verdict(low, [published()]) if "far below" in line]
    assert "acceptance length 3.00 is far below the 6.50 on record (mixed: a card)" in line
    assert causes(line)[0].startswith("another revision")
    elsewhere = published(thinking="on", version="0.25.1")
    (line,) = [line for line in verdict(low, [elsewhere]) if "far below" in line]
    assert causes(line)[0].startswith("thinking was off here and on there")
    assert causes(line)[1].startswith("the engine is 0.26.0 here and was 0.25.1 there")
    assert not any("far below" in line for line in verdict(report(), [published()]))


def test_so_few_tokens_are_a_cause_by_themselves() -> None:
    low = report(lengths={"dflash-16": 3.0})
    cells = [_smaller(cell, 40) for cell in low.cells]
    few = msgspec.structs.replace(low, cells=tuple(cells))
    (line,) = [line for line in verdict(few, [published()]) if "far below" in line]
    assert causes(line)[0].startswith("how little was measured: 320 tokens")


def test_blocks_that_the_engine_cut_short_are_a_cause_that_the_counters_show() -> None:
    low = report(lengths={"dflash-16": 3.0})
    cells = [_drafting(cell, 4.0) for cell in low.cells]
    short = msgspec.structs.replace(low, cells=tuple(cells))
    (line,) = [line for line in verdict(short, [published()]) if "far below" in line]
    assert causes(line)[0].startswith("the engine drafted 4.0 of a block's 15 tokens a cycle")


def test_a_model_without_a_thinking_mode_was_not_asked_in_the_wrong_one() -> None:
    low = report(lengths={"dflash-16": 3.0})
    silent = tuple(msgspec.structs.replace(each, thinking=None) for each in low.workloads)
    mute = msgspec.structs.replace(low, workloads=silent)
    (line,) = [line for line in verdict(mute, [published(thinking=None)]) if "far below" in line]
    assert "thinking" not in causes(line)[0]
    assert any(cause.startswith("thinking, if its template has it") for cause in causes(line))


def _smaller(cell: Cell, tokens: int) -> Cell:
    """As of a run of so many tokens, of the same lengths and speed."""

    def small(run: Run) -> Run:
        share = tokens / run.output_tokens
        counted = run.speculation and msgspec.structs.replace(
            run.speculation, drafts=run.speculation.drafts * share,
            draft_tokens=run.speculation.draft_tokens * share,
            accepted=run.speculation.accepted * share,
        )  # fmt: skip
        return msgspec.structs.replace(
            run, output_tokens=tokens, requests=1, seconds=run.seconds * share, speculation=counted
        )

    return msgspec.structs.replace(cell, runs=tuple(small(run) for run in cell.runs))


def _drafting(cell: Cell, tokens: float) -> Cell:
    """As of an engine that drafted so many a cycle."""
    return msgspec.structs.replace(cell, runs=tuple(
        msgspec.structs.replace(run, speculation=run.speculation and msgspec.structs.replace(
            run.speculation, draft_tokens=tokens * run.speculation.drafts))
        for run in cell.runs
    ))  # fmt: skip


def test_prompts_that_the_cache_knew_are_told_with_what_asks_others() -> None:
    known = report()
    cells = tuple(
        msgspec.structs.replace(cell, runs=tuple(
            msgspec.structs.replace(run, cached_tokens=run.prompt_tokens) for run in cell.runs
        ))
        for cell in known.cells
    )  # fmt: skip
    said = "\n".join(verdict(msgspec.structs.replace(known, cells=cells, seed=4), []))
    assert "the prefix cache answered 100% of the prompt tokens" in said
    assert "--seed 5 asks others" in said


def test_what_a_cycle_costs_leaves_out_the_steps_without_a_draft() -> None:
    speeds = {"plain": {1: (100, 101)}, "dflash-16": {1: (110, 111)}}
    rarely = resting(report(speeds), "dflash-16", 1, cycles=5000)
    (line,) = [line for line in verdict(rarely, []) if "what limits it" in line]
    assert line == (
        "dflash-16, mixed: what limits it is how rarely the engine drafts: 75% of the tokens came"
        " without a draft at 1 in flight; a cycle brings 2.0 tokens and costs 1.3 plain steps"
    )


def test_another_block_is_no_measure() -> None:
    low = report(lengths={"dflash-16": 3.0})
    assert not any("far below" in line for line in verdict(low, [published(block_size=8)]))


def test_a_category_that_the_draft_is_weak_at_is_told() -> None:
    both = report(lengths={"dflash-16": 3.0}, workloads=("mixed", "chinese"))
    cells = [cell if cell.workload == "mixed" else _weaker(cell) for cell in both.cells]
    weak = msgspec.structs.replace(both, cells=tuple(cells))
    lines = [line for line in verdict(weak, [published()]) if "far below" in line]
    assert any("what is asked: mixed 3.0, chinese 1.5" in line for line in lines)


def _weaker(cell: Cell) -> Cell:
    return msgspec.structs.replace(cell, runs=tuple(_with_length(run, 1.5) for run in cell.runs))


def _with_length(run: Run, length: float) -> Run:
    if run.speculation is None:
        return run
    drafts = run.output_tokens / length
    counted = {"drafts": drafts, "accepted": drafts * (length - 1)}
    return msgspec.structs.replace(
        run, speculation=msgspec.structs.replace(run.speculation, **counted)
    )


def test_a_server_that_says_nothing_of_acceptance_is_no_proof_that_it_drafts() -> None:
    silent = verdict(report({"plain": {1: (5,)}, "dflash-16": {1: (9,)}}, lengths={"dflash-16": 0}))
    assert any("whether it drafts at all is not known" in line for line in silent)
    assert not any("drafts at all" in line for line in verdict(report()))


def test_where_requests_arrive_the_times_of_answers_are_told_and_no_gain() -> None:
    made = report({"plain": {4: (100, 101)}, "dflash-16": {4: (100, 101)}})
    rated = tuple(
        msgspec.structs.replace(cell, load=Load(rate=0.5), runs=tuple(
            msgspec.structs.replace(run, latency=Percentiles(took, took, took, took))
            for run, took in zip(cell.runs, times, strict=True)
        ))
        for cell, times in zip(made.cells, ((2.0, 2.2), (0.9, 1.0)), strict=True)
    )  # fmt: skip
    told = verdict(msgspec.structs.replace(made, cells=rated))
    assert told[0] == (
        "where 0.5 requests arrive a second, an answer takes 0.9 s (0.9 to 1) with dflash-16, and"
        " 2 s (2 to 2.2) plainly (medians)"
    )
    assert not any("faster" in line or "leave it off" in line for line in told)
    both = verdict(msgspec.structs.replace(made, cells=(*made.cells, *rated)))
    assert "at 4 in flight DFlash is no faster" in both[0]
    assert both[1] == told[0]


def test_a_load_at_which_the_draft_rests_says_nothing_of_what_limits_it() -> None:
    speeds = {"plain": {1: (100, 101), 8: (700, 705)}, "dflash-8": {1: (300, 303), 8: (600, 610)}}
    text = "\n".join(verdict(resting(report(speeds), "dflash-8", 8)))
    assert "dflash-8, mixed: its draft rests at 8 in flight, where 100% of the tokens" in text
    assert "costs 1.7 plain steps at 1 in flight" in text
    assert "plain steps at 8" not in text
    assert "rests" not in said(speeds)


def test_a_draft_that_rests_everywhere_was_seen_all_the_same() -> None:
    speeds = {"plain": {8: (700, 705)}, "dflash-8": {8: (600, 610)}}
    text = "\n".join(verdict(resting(report(speeds), "dflash-8", 8, cycles=0)))
    assert "rests at 8 in flight" in text
    assert "does not say" not in text


Where = tuple[str, int]


def waiting(
    times: dict[Where, tuple[float, float]], answered: dict[Where, int] | None = None
) -> str:
    """Of GENTLE: mean seconds until the first token and the last, and requests of a run."""

    def changed(cell: Cell, run: Run) -> Run:
        where = (cell.arm, cell.load.concurrency)
        first, last = (
            Percentiles(mean=each, p50=each, p90=each, p99=each) for each in times[where]
        )
        requests = (answered or {}).get(where, run.requests)
        return msgspec.structs.replace(run, ttft=first, latency=last, requests=requests)

    made = report(GENTLE)
    cells = tuple(
        msgspec.structs.replace(cell, runs=tuple(changed(cell, run) for run in cell.runs))
        if (cell.arm, cell.load.concurrency) in times else cell
        for cell in made.cells
    )  # fmt: skip
    return "\n".join(verdict(msgspec.structs.replace(made, cells=cells)))


LATE = {("dflash-8", 64): (5.0, 8.0), ("plain", 64): (1.2, 4.2)}


def test_requests_that_wait_for_room_are_the_limit_and_no_cycle_is_charged_for_it() -> None:
    text = waiting(LATE, {("dflash-8", 64): 40})

    assert (
        "dflash-8, mixed: what limits it at 64 in flight is room: about 10 are answered at a time,"
        " of plain decoding 19, and the others wait (5.0 s until the first token against 1.2); a"
        " shorter block or more cards make room"
    ) in text
    assert "at 64 in flight a cycle brings" not in text
    assert "costs" in text  # of the loads that have room


def test_a_pause_is_no_want_of_room() -> None:
    # as many are answered at a time as with plain decoding
    assert "is room" not in waiting(LATE)
    # room that lacks at 8 lacks at 64
    once = {("dflash-8", 8): (5.0, 8.0), ("plain", 8): (1.2, 4.2)}
    assert "is room" not in waiting(once, {("dflash-8", 8): 40})


def test_prompts_that_wait_for_their_prefill_are_no_want_of_room() -> None:
    # long prompts and short answers: decoding is quick, so that all wait for the next prefill
    bound = {("dflash-8", 64): (3.0, 4.0), ("plain", 64): (0.5, 4.5)}
    assert "is room" not in waiting(bound)  # as many prompts a second as with plain decoding
    assert "is room" in waiting(bound, {("dflash-8", 64): 40})
