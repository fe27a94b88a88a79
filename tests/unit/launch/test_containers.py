"""Servers in containers: what their labels tell, whoever wrote them."""

from __future__ import annotations

import pytest

from dflash_deploy.launch.containers import LABEL, labelled
from dflash_deploy.launch.servers import healthy
from dflash_deploy.service import known_by
from tests.fakes.plans import plan


def test_the_labels_of_a_plan_are_read_as_they_were_written() -> None:
    made = plan("sglang", port=30001)
    read = labelled(known_by(made))

    assert (read["model"], read["engine"], read["version"]) == (made.model, "sglang", made.version)
    assert (read["port"], read["base_url"]) == (30001, made.base_url)


@pytest.mark.parametrize(
    ("label", "said", "field", "means"),
    [
        ("port", "abc", "port", 0), ("port", "-1", "port", 0), ("port", "9" * 5000, "port", 0),
        ("port", "\u00b2", "port", 0),
        ("acceptance", "high", "expected_length", None),
        ("acceptance", "nan", "expected_length", None),
        ("acceptance", "inf", "expected_length", None),
        ("engine", "ollama", "engine", "vllm"),
        ("version", "latest", "version", ""), ("version", "", "version", ""),
    ],
)  # fmt: skip
def test_a_label_that_means_nothing_tells_nothing(
    label: str, said: str, field: str, means: object
) -> None:
    assert labelled({LABEL: "m", f"dflash.{label}": said})[field] == means


def test_an_address_that_is_none_is_not_healthy() -> None:
    assert not healthy("http://[::bad/health", 1)
