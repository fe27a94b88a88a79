"""CUDA_VISIBLE_DEVICES, rule by rule."""

from __future__ import annotations

import pytest

from dflash_deploy.visible import ONE_SLICE, Unit, select

FOUR = [Unit(place, uuid) for place, uuid in enumerate(["GPU-aa1", "GPU-aa2", "GPU-b", "GPU-c"])]
SLICED = [
    Unit(0, "GPU-w"),
    Unit(1, "GPU-m", ("MIG-x1", "MIG-GPU-m/2/0")),
    Unit(1, "GPU-m", ("MIG-x2", "MIG-GPU-m/3/0")),
]


@pytest.mark.parametrize(
    ("value", "chosen"),
    [
        (None, (0, 1, 2, 3)),
        ("", ()),
        ("  ", ()),
        ("2,0", (2, 0)),
        (" 1 , 3 ", (1, 3)),
        ("0,2,-1,1", (0, 2)),
        ("0,9,1", (0,)),
        ("NoDevFiles", ()),
        ("-1", ()),
        ("1x,2", (1, 2)),
        ("1,1", ()),
        ("99999999999999999999", ()),
        ("GPU-b", (2,)),
        ("GPU-c,GPU-aa1", (3, 0)),
        ("GPU-a", ()),
        ("GPU-b,0", (2,)),
        ("0,GPU-b", (0,)),
        ("GPU-none", ()),
        ("1,", (1,)),
        ("MIG-x1", ()),
        ("²", ()),
    ],
)
def test_cards_are_chosen_and_ordered_as_cuda_does(value, chosen):
    selection = select(value, FOUR)
    assert selection.chosen == chosen
    assert set(selection.reasons) == {0, 1, 2, 3} - set(chosen)


@pytest.mark.parametrize(
    ("value", "chosen"),
    [
        (None, (1,)),
        ("0", (0,)),
        ("1", (1,)),
        ("GPU-m", (1,)),
        ("MIG-x2", (2,)),
        ("MIG-x", ()),
        ("MIG-GPU-m/3/0", (2,)),
        ("MIG-GPU-m/9/0", ()),
        ("MIG-x2,MIG-x1", (2,)),
        ("0,1", (1,)),
    ],
)
def test_one_slice_is_used_and_then_no_other_card(value, chosen):
    assert select(value, SLICED).chosen == chosen


def test_a_hidden_unit_knows_why():
    assert select("MIG-x2,MIG-x1", SLICED).reasons == {
        0: "CUDA_VISIBLE_DEVICES=MIG-x2,MIG-x1 leaves it out",
        1: ONE_SLICE,
    }


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("0,9,1", "`9` names no card here"),
        ("GPU-a", "`GPU-a` fits several cards"),
        ("1,1", "names a card twice"),
        ("", "is empty"),
    ],
)
def test_what_cuda_makes_of_an_odd_list_is_said(value, said):
    assert said in select(value, FOUR).note


def test_a_plain_list_needs_no_remark():
    assert select("1,0", FOUR).note is None


def test_without_cards_there_is_nothing_to_say():
    assert select("0", []) == select(None, [])
