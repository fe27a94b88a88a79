"""Reading fields: where they were, and everything that is wrong with them."""

from __future__ import annotations

import pytest

from dflash_deploy.errors import DownloadError, Unsupported
from dflash_deploy.model_config import Fields, as_gib, inner, parse


def test_the_first_place_that_has_a_field_wins():
    fields = Fields("org/x", ("inner.", {"a": 1, "b": None}), ("", {"a": 2, "b": 3, "c": 4}))
    assert (fields.count("a"), fields.count("b"), fields.count("z", "c")) == (1, 3, 4)
    assert fields.origins == {"a": "inner.a", "b": "b", "z": "c"}


def test_all_that_is_missing_or_wrong_is_said_once():
    fields = Fields("org/x", ("", {"b": -1, "c": "x" * 100}))
    for _ in range(2):
        fields.count("a")
        fields.count("b")
    fields.flag("c")
    with pytest.raises(Unsupported) as caught:
        fields.refuse(hint="do", detail="because")
    assert caught.value.message.startswith("config.json of org/x: lacks a; b is -1, not a whole")
    assert caught.value.message.count("b is") == 1
    assert len(caught.value.message) < 160
    assert (caught.value.hint, caught.value.detail) == ("do", "because")


def test_a_default_says_why():
    fields = Fields("org/x", ("", {}))
    assert fields.count("a", default=8, why="the format's default") == 8
    assert fields.origins["a"] == "the format's default"
    fields.refuse()


@pytest.mark.parametrize(
    "data", [b"", b"[1]", b'"x"', b"{", b"\xff\xfe", b'{"a":' * 100_000], ids=repr
)
def test_what_is_no_json_object_is_no_config(data):
    with pytest.raises(DownloadError, match="x is no JSON object"):
        parse(data, "x")


def test_a_part_that_is_no_object_is_no_part():
    assert inner({"a": [1], "b": {"c": 1}}, "a", "b") == {"c": 1}
    assert inner({"a": None}, "a") == {}


@pytest.mark.parametrize(("size", "gib"), [(2**30, 1.0), (2097252864, 1.95), (24561408, 0.0229)])
def test_sizes_are_said_as_the_registry_does(size, gib):
    assert as_gib(size) == gib
