from __future__ import annotations

import msgspec
import pytest

from dflash_deploy.measure.report import Report
from dflash_deploy.measure.tuned_recipe import figures, overlay, recipe, what
from dflash_deploy.measure.tuning import Choice, best_block, chosen, measured, plain_loads
from dflash_deploy.registry import Entry, load
from dflash_deploy.schema import Recipe, When
from tests.fakes.reports import report


@pytest.fixture(scope="module")
def entry() -> Entry:
    return load(user=False).find("qwen3-8b")


def base(entry: Entry) -> Recipe:
    return next(each for each in entry.model.recipes if each.when.engine == "vllm")


def choice(of: Report, *, schedules: bool = True) -> Choice:
    found = chosen(measured(of), plain_loads(of), schedules=schedules)
    assert found is not None
    return found


def test_a_schedule_in_front_for_cards_like_this_one(entry: Entry) -> None:
    made = overlay(report(), entry, base(entry), choice(report()), "bf16", "auto")
    (found,) = made.model.recipes
    assert made.file == "models/Qwen/Qwen3-8B-tune-20261128100000.yaml"
    assert made.model.extends == entry.id
    assert found.name == "tuned-20261128100000"
    assert (found.block_size, found.schedule) == (16, [(1, 16, 15), (17, 64, 7)])
    assert found.when == When(
        engine="vllm", version=">=0.26.0", cards=["H100"], memory_at_least_gib=80
    )
    assert "4.02x at 1" in found.why
    assert "SYNTHETIC" not in found.why
    assert [each.outcome for each in made.model.evidence] == ["verified"]


def test_all_else_is_kept_of_the_recipe_that_ran(entry: Entry) -> None:
    ran = msgspec.structs.replace(
        base(entry), attention_backend="flash_attn", flags=["--no-enable-prefix-caching"],
        when=When(engine="vllm", version=">=0.24.0,<0.33.0", concurrency_at_most=8),
    )  # fmt: skip
    made = recipe(report(), ran, choice(report()), "fp8")
    assert (made.attention_backend, made.flags) == (ran.attention_backend, ran.flags)
    assert (made.when.version, made.when.kv_dtype) == (">=0.26.0,<0.33.0", "fp8")
    assert made.when.concurrency_at_most is None


def test_a_choice_for_low_load_says_so(entry: Entry) -> None:
    losing = report({"plain": {1: (100, 101), 64: (3000, 3030)},
                     "dflash-16": {1: (400, 404), 64: (1000, 1010)}})  # fmt: skip
    made = recipe(losing, base(entry), choice(losing), "auto")
    assert (made.block_size, made.schedule, made.when.concurrency_at_most) == (16, [], 1)


def test_made_up_acceptance_is_said_and_verifies_nothing(entry: Entry) -> None:
    made_up = report(synthetic=6.5)
    made = overlay(made_up, entry, base(entry), choice(made_up), "bf16", "auto")
    assert made.model.recipes[0].why.startswith("SYNTHETIC, acceptance was made up")
    assert all(each.synthetic for each in made.model.evidence)


def test_a_build_between_releases_counts_from_its_release(entry: Entry) -> None:
    built = msgspec.structs.replace(report(), version="0.27.0.dev3+abc")
    assert recipe(built, base(entry), choice(built), "auto").when.version == ">=0.27.0"


def test_what_was_as_fast_is_in_the_reason_with_its_figures(entry: Entry) -> None:
    alike = report({"plain": {1: (100, 101)}, "dflash-16": {1: (400, 430)},
                    "dflash-8": {1: (410, 440)}})  # fmt: skip
    found = best_block(measured(alike), (1,), own=16)
    assert found is not None
    made = recipe(alike, base(entry), found, "auto")
    assert made.block_size == 16
    assert made.why.endswith(
        "against plain decoding: 4.13x at 1 in flight; blocks of 8 are faster by less than the spread"
        " (4.23x at 1 in flight): the entry's own stay"
    )


def test_a_block_that_did_not_start_is_none_of_those_that_were_tried(entry: Entry) -> None:
    died = report({"plain": {1: (100, 101)}, "dflash-16": {1: (400, 404)}, "dflash-8": {}})
    assert "of blocks of 16, on" in recipe(died, base(entry), choice(died), "auto").why


def test_in_words() -> None:
    block = best_block(measured(report()), (1, 8))
    assert block is not None
    assert what(block) == "blocks of 16"
    assert figures(block) == "4.02x at 1, 2.88x at 8 in flight"
    assert what(choice(report())).endswith("15 up to 16 requests, 7 up to 64")
